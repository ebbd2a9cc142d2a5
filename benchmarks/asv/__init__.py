"""Benchmarks of fits for asv: time, memory and the objective reached, so that speed bought with accuracy shows."""
