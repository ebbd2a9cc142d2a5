"""
Which rows use which factor?
============================

Rows that are made of causes which are present or absent: each of three patterns is in about half of the rows. ``ISFA``
draws how many factors there are, and which rows use which. Nearly all draws have three that many rows use, and the rows
that use a factor follow those in which a pattern is.
"""

# %%
# Bits from three patterns that are switched on and off.

import matplotlib.pyplot as plt
import numpy as np
from scipy.special import expit

from anypca import ISFA

rng = np.random.default_rng(1)
patterns = 4.0 * rng.choice([-1, 0, 1], size=(3, 24), p=[0.3, 0.4, 0.3])
present = rng.random((100, 3)) < 0.5
X = (rng.random((100, 24)) < expit(present @ patterns)).astype(float)

model = ISFA(family="bernoulli", fit_intercept=False, n_chains=1, n_tune=100, n_draws=60).fit(X)
print("factors drawn: ", np.bincount(model.n_factors_.ravel()))
print("used by 5 % of the rows: ", np.bincount(model.n_used_.ravel()))

# %%
# Left: how many factors the draws have. Right: the probability that a row uses a factor, above which patterns are in
# which rows; rows are sorted by these.

fig, (left, right) = plt.subplots(1, 2, figsize=(10, 4.2), layout="constrained", width_ratios=[1, 2])
numbers = np.arange(model.n_factors_.max() + 1)
for shift, (name, found) in zip(
    (-0.2, 0.2), [("drawn", model.n_factors_), ("used", model.n_used_)], strict=True
):
    counts = np.bincount(found.ravel(), minlength=len(numbers))
    left.bar(numbers + shift, counts, 0.4, label=name)
left.set(xlabel="number of factors", ylabel="draws")
left.legend()
order = np.lexsort(present.T)
right.imshow(np.vstack([model.inclusion_, present.T])[:, order], aspect="auto", interpolation="nearest")
right.axhline(model.n_components_ - 0.5, color="white", linewidth=2)
right.set(xlabel="rows", ylabel="found (above) and true (below)", yticks=[])
plt.show()
