"""Variational autoencoder: a bent latent space under any family."""

from anypca.models.vae._estimator import VAE

__all__ = ["VAE"]
