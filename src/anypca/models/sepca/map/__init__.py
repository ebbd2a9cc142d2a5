"""The published algorithm: joint modes of scores, loadings and ARD precisions."""
