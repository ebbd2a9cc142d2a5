"""Shared parts of models whose posterior is represented by draws."""
