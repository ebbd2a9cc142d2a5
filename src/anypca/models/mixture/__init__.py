"""Mixtures of latent variable models."""

from anypca.models.mixture._estimator import MixtureOf

__all__ = ["MixtureOf"]
