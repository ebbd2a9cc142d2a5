"""
Groups of rows, each with its own components
============================================

Two groups of rows with different relations between the columns. Their clouds overlap, and k-means splits them in the
middle. ``MixtureOf`` fits a model to each group and finds the number of groups by BIC.
"""

# %%
# Two crossing planes in eight columns.

import matplotlib.pyplot as plt
import numpy as np
from sklearn.cluster import KMeans
from sklearn.metrics import adjusted_rand_score

from anypca import PPCA, MixtureOf

rng = np.random.default_rng(0)
groups = rng.integers(2, size=300)
loadings = rng.normal(size=(2, 2, 8))
X = np.einsum("ik,ikj->ij", rng.normal(size=(300, 2)), loadings[groups]) + 0.3 * rng.normal(size=(300, 8))
X[groups == 1] += 0.8

model = MixtureOf(PPCA(2), n_groups="auto", random_state=0).fit(X)
means = KMeans(2, n_init=10, random_state=0).fit_predict(X)
print("BIC:", {number: round(value) for number, value in model.bic_by_n_groups_.items()})
print(
    "adjusted Rand index:",
    adjusted_rand_score(groups, model.predict(X)),
    "k-means:",
    adjusted_rand_score(groups, means),
)

# %%
# The rows on two components of all of them, coloured by the groups that were found.

scores = PPCA(2).fit_transform(X)
fig, axes = plt.subplots(1, 2, figsize=(9, 4.2), layout="constrained", sharex=True, sharey=True)
for ax, (name, found) in zip(axes, [("MixtureOf", model.predict(X)), ("k-means", means)], strict=True):
    ax.scatter(*scores.T, c=found, cmap="coolwarm", s=12)
    ax.set(title=name, xlabel="component 1")
axes[0].set(ylabel="component 2")
plt.show()
