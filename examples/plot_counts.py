"""
Counts: what the logarithm costs
================================

Counts are often turned into logarithms and given to ordinary PCA. Is that good enough? On rare counts it is not: zeros
become the same number whatever rate is behind them. A model that knows the values are counts recovers the components
better, and the fewer the counts the more so.
"""

# %%
# Tables of 200 rows and 30 columns with two components in the logarithms of their rates. The typical rate falls from
# 20 to 0.3 counts per cell. We measure how far the true subspace is from the estimated one, by the largest angle.

import matplotlib.pyplot as plt
import numpy as np
from scipy.linalg import subspace_angles
from sklearn.decomposition import PCA

from anypca import EPCA
from anypca.datasets import make_low_rank_counts


def angle(found, truth):
    """Largest angle between two subspaces, in degrees."""
    return np.degrees(subspace_angles(found.T, truth.T)[0])


rates = [20, 5, 1.6, 0.6, 0.3]
angles = {"PCA of log(1 + x)": [], "EPCA of the counts": []}
for rate in rates:
    table = make_low_rank_counts(200, 30, 2, typical_mean=rate, random_state=0)
    logs = PCA(2).fit(np.log1p(table.X))
    model = EPCA(2, family="poisson").fit(table.X)
    angles["PCA of log(1 + x)"].append(angle(logs.components_, table.components))
    angles["EPCA of the counts"].append(angle(model.components_, table.components))

# %%
# The picture: degrees between the true plane and the fitted one. 90 degrees means that a direction was missed.

fig, ax = plt.subplots(figsize=(6, 4), layout="constrained")
for (name, values), marker in zip(angles.items(), "os", strict=True):
    ax.plot(rates, values, marker=marker, label=name)
ax.set(xscale="log", xlabel="typical count per cell", ylabel="angle to the truth, degrees", ylim=(0, None))
ax.set_xticks(rates, [f"{rate:g}" for rate in rates], minor=False)
ax.minorticks_off()
ax.invert_xaxis()
ax.legend()
plt.show()
