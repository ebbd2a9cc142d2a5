"""
Which columns do components share?
==================================

Four components live in two sets of columns: two in columns 0 to 3, two in columns 4 to 8; columns 9 to 11 are noise.
With two patterns, structured sparse PCA finds both sets: a column enters both components of a pattern or none.
Cross-validation along the path of penalties tells how many columns there are in all.
"""

# %%
import matplotlib.pyplot as plt
import numpy as np

from anypca import SSPCA
from anypca.plotting import plot_loadings

rng = np.random.default_rng(0)
loadings = np.zeros((12, 4))
loadings[:4, :2] = 8.0 * rng.normal(size=(4, 2))
loadings[4:9, 2:] = rng.normal(size=(5, 2))
X = rng.normal(size=(200, 4)) @ loadings.T + 0.3 * rng.normal(size=(200, 12))

chosen = SSPCA(4, n_penalties=15).fit(X)
print("columns, by cross-validation:", chosen.get_support(indices=True))

model = SSPCA(4, n_patterns=2, n_features_to_select=chosen.n_features_selected_).fit(X)
for number, pattern in enumerate(model.patterns_):
    print(f"pattern {number}:", np.flatnonzero(pattern))

# %%
# Left: the error of cells left out, by penalty, falls while noise goes and rises when columns of the components go.
# Right: loadings of the first component of each pattern.

fig, axes = plt.subplots(1, 3, figsize=(12, 4.0), layout="constrained")
axes[0].plot(chosen.penalty_path_, chosen.cv_errors_.mean(axis=0), marker="o", markersize=3)
axes[0].axvline(chosen.penalty_, color="0.5", linestyle=":")
axes[0].set(xscale="log", yscale="log", xlabel="penalty", ylabel="mean squared error")
plot_loadings(model, 1, ax=axes[1])
plot_loadings(model, 3, ax=axes[2])
plt.show()
