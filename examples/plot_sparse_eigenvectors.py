"""
Sparse eigenvectors: how few columns does a component need?
===========================================================

A principal component of 13 measurements uses all of them. How much variance is lost with three or four, and might
another choice of columns be better? ``SPCA(method="eigen")`` looks for the columns and proves that there is no better
choice. On wines a component of six measurements keeps 80 % of the variance of the first principal component, one of
eight 91 %. The elastic net, which chooses by a penalty and proves nothing, keeps less with as many columns.
"""

# %%
import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_wine

from anypca import SPCA

data = load_wine()
X = (data.data - data.data.mean(axis=0)) / data.data.std(axis=0, ddof=1)
numbers = range(1, X.shape[1] + 1)
sparse = [SPCA(1, n_nonzero=k, method="eigen").fit(X) for k in numbers]
net = [SPCA(1, n_nonzero=k, max_iter=5000).fit(X) for k in numbers]

# %%
# ``optimal_`` says whether a choice was proved to be the best, ``upper_bound_`` what no choice can exceed.

for k in (3, 6):
    model = sparse[k - 1]
    names = [data.feature_names[j] for j in np.flatnonzero(model.components_[0])]
    print(
        f"{k} columns, proved: {model.optimal_[0]}, variance {model.eigenvalues_[0]:.2f}: {', '.join(names)}"
    )

# %%
# Left: the variance of one component by its number of columns. Right: six components of three columns each. What a
# component explains is taken out before the next is looked for (``deflation="schur"``).

whole = sparse[-1].eigenvalues_[0]
six = SPCA(6, n_nonzero=3, method="eigen").fit(X)
fig, (left, right) = plt.subplots(1, 2, figsize=(10, 4), layout="constrained", width_ratios=(1, 1.2))
left.plot(
    numbers, [100 * m.eigenvalues_[0] / whole for m in sparse], "o-", label="sparse eigenvector, proved"
)
left.plot(numbers, [100 * m.explained_variance_[0] / whole for m in net], "s--", label="elastic net")
left.set(
    xlabel="number of columns",
    ylabel="% of the first principal variance",
    ylim=(0, 105),
    xticks=range(1, 14, 2),
)
left.legend(loc="lower right")
limit = np.abs(six.components_).max()
image = right.imshow(six.components_.T, cmap="PuOr", vmin=-limit, vmax=limit, aspect="auto")
right.set_yticks(range(X.shape[1]), data.feature_names)
right.set_xticks(range(6), [f"PC{k + 1}" for k in range(6)])
fig.colorbar(image, ax=right, label="loading")
plt.show()
