"""The Gaussian core: ``x = mean + W z + e`` with noise of equal variance, any entries missing."""
