"""Autoencoder: a neural network that reconstructs each row from a few latent units."""

from anypca.models.autoencoder._estimator import Autoencoder

__all__ = ["Autoencoder"]
