"""
Sparse loadings: components of a few columns
============================================

A component of 100 columns is hard to name. Which columns does it need? On counts whose components involve ten columns
each, SSPPCA sets almost all other loadings to exactly zero. SPCA does the same for real numbers, here for the
logarithms of the same counts, when it is told how many columns to use.
"""

# %%
import matplotlib.pyplot as plt
import numpy as np

from anypca import SPCA, SSPPCA
from anypca.datasets import make_sparse_counts

table = make_sparse_counts(250, 60, 2, n_nonzero=10, random_state=0)

# %%
# SSPPCA puts a price on every non-zero loading. It chooses the number of components as well. ``sparsity="auto"``, the
# default, would try several prices; two natural-log units is a good guess.

counts = SSPPCA(max_components=4, sparsity=2.0).fit(table.X)

# %%
# SPCA limits the number of non-zero loadings of each component.

logs = SPCA(n_components=2, n_nonzero=10).fit(np.log1p(table.X))


def report(name, components):
    """How many of the loadings are right to be there."""
    found = (components != 0).any(axis=0)
    true = table.support.any(axis=0)
    print(f"{name}: {found.sum()} columns, {(found & true).sum()} of the true {true.sum()}")


report("SSPPCA", counts.components_)
report("SPCA of logs", logs.components_)

# %%
# Order and signs of components are free; which columns belong together is what counts.

order = np.argsort(~table.support[0], kind="stable")
rows = {
    "truth": table.components,
    "SSPPCA of the counts": counts.components_,
    "SPCA of the logs": logs.components_,
}
fig, axes = plt.subplots(3, 1, figsize=(9, 4.6), layout="constrained", sharex=True)
for ax, (name, loadings) in zip(axes, rows.items(), strict=True):
    limit = np.abs(loadings).max()
    ax.imshow(loadings[:, order], cmap="PuOr", vmin=-limit, vmax=limit, aspect="auto")
    ax.set(title=name, yticks=range(len(loadings)), yticklabels=[f"PC{k + 1}" for k in range(len(loadings))])
axes[-1].set_xlabel("column (those of the first true component first)")
plt.show()
