"""One module per published table or figure; ``python -m experiments`` runs them all."""
