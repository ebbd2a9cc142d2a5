"""
How sure are the scores?
========================

A row of few counts says little about where it lies. ``transform(X, return_std=True)`` gives the posterior standard
deviation of each score. Does it keep its promise? Of the true scores of new rows about 95 % should lie within two
standard deviations. They come close, in rows with few counts, where the deviations are wide, and in rows with many,
where they are half as wide.
"""

# %%
# Rows differ in effort: some are counted twenty times as long as others. The logarithm of the effort is an offset.

import matplotlib.pyplot as plt
import numpy as np
from scipy.linalg import orthogonal_procrustes

from anypca import SePCA
from anypca.plotting import plot_scores

rng = np.random.default_rng(0)
loadings = rng.normal(size=(2, 20)) * [[0.8], [0.5]]


def draw(n_rows):
    """Counts, the logarithms of efforts, and the true scores."""
    scores = rng.normal(size=(n_rows, 2))
    effort = np.exp(rng.uniform(np.log(0.2), np.log(4), size=n_rows))
    return rng.poisson(effort[:, None] * np.exp(scores @ loadings)), np.log(effort), scores


X, offset, _ = draw(400)
model = SePCA(max_components=4, family="poisson").fit(X, offset=offset)

# %%
# New rows from the same truth. Loadings are known up to a rotation only, so the true scores are turned into the
# model's frame before they are compared.

X_new, offset_new, truth = draw(400)
mean, std = model.transform(X_new, offset=offset_new, return_std=True)
rotation = orthogonal_procrustes(loadings.T, model.components_.T)[0]
inside = np.abs(truth @ rotation - mean) < 2 * std
for name, rows in [("few counts", offset_new < -0.5), ("many counts", offset_new > 0.5)]:
    print(f"{name}: within two deviations {inside[rows].mean():.1%}, mean deviation {std[rows].mean():.2f}")

# %%
# Left, 30 of the rows with ellipses of 68 %, coloured by the logarithm of their effort. Right, all rows.

fig, (left, right) = plt.subplots(1, 2, figsize=(10, 4.2), layout="constrained")
plot_scores(model, mean[:30], std[:30], color=offset_new[:30], coverage=0.68, ax=left)
right.scatter(X_new.sum(axis=1), std.mean(axis=1), s=8)
right.set(xscale="log", xlabel="counts in the row", ylabel="posterior deviation of its scores")
plt.show()
