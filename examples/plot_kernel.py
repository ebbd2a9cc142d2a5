"""
Kernel PCA: where it helps and where it does not
================================================

Two rings have no direction along which they are apart, yet the first component of kernel PCA separates them. A Swiss
roll is wound up too tightly for any kernel: nearness through space is not nearness along the sheet. Kernel PCA is a
tool for groups, not for unrolling.
"""

# %%
import matplotlib.pyplot as plt
from sklearn.datasets import make_circles

from anypca import KernelPCA
from anypca.datasets import make_swiss_roll

rings, ring = make_circles(300, factor=0.3, noise=0.05, random_state=0)
roll = make_swiss_roll(600, random_state=0)

# %%
# The rings by the exact method, the roll by landmarks (Nystroem), which scale to many rows. The default width of the
# kernel is the median distance between rows; rings that lie inside each other need a narrower one.

ring_scores = KernelPCA(2, gamma=2.0).fit_transform(rings)
roll_scores = KernelPCA(2, method="nystroem", n_basis=200, random_state=0).fit_transform(roll.X)

fig, axes = plt.subplots(2, 2, figsize=(9, 8), layout="constrained")
axes[0, 0].scatter(*rings.T, c=ring, s=10, cmap="cividis")
axes[0, 0].set_title("two rings")
axes[0, 1].scatter(*ring_scores.T, c=ring, s=10, cmap="cividis")
axes[0, 1].set_title("their kernel scores: apart")
axes[1, 0].scatter(roll.X[:, 0], roll.X[:, 2], c=roll.flat[:, 0], s=10, cmap="cividis")
axes[1, 0].set_title("Swiss roll, from the side")
axes[1, 1].scatter(*roll_scores.T, c=roll.flat[:, 0], s=10, cmap="cividis")
axes[1, 1].set_title("its kernel scores: still rolled up")
for ax in axes.flat:
    ax.set(xticks=[], yticks=[])
plt.show()
