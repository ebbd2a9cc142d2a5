"""The bilinear core: ``eta = offset + b + covariates B' + Z W'`` under any family."""
