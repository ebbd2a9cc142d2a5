"""Autoencoder: a net that squeezes each row through few units and rebuilds it."""

from anypca.models.autoencoder._estimator import Autoencoder

__all__ = ["Autoencoder"]
