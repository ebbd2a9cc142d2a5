"""
Missing cells: fill them with what the model expects
====================================================

Cells that are NaN are left out of the likelihood, in every model that can do so. How good are the values that a model
puts in their place? On counts with two components the error of the filled cells stays near the limit that noise
sets, up to half of the cells missing, while column means are far off.
"""

# %%
# Cells are removed at random, the fit sees the rest, and `Imputer` fills expected values for the gaps.

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_iris

from anypca import EPCA, PPCA, Imputer
from anypca.datasets import make_low_rank_counts

table = make_low_rank_counts(200, 25, 2, typical_mean=6, random_state=0)
rates = np.exp(table.eta)
rng = np.random.default_rng(0)
shares = [0.05, 0.2, 0.35, 0.5, 0.65]
errors = {"column means": [], "EPCA": [], "the true rates": []}


def error(filled, gaps):
    """Root mean square difference on the square-root scale, where counts have equal noise."""
    return np.sqrt(np.mean((np.sqrt(filled[gaps]) - np.sqrt(table.X[gaps])) ** 2))


for share in shares:
    gaps = rng.random(table.X.shape) < share
    holed = np.where(gaps, np.nan, table.X)
    filled = Imputer(EPCA(2, family="poisson")).fit_transform(holed)
    means = np.broadcast_to(np.nanmean(holed, axis=0), holed.shape)
    for name, values in zip(errors, (means, filled, rates), strict=True):
        errors[name].append(error(values, gaps))

# %%
# No method can beat the true rates; the distance between the two lower curves is the price of not knowing them.

fig, ax = plt.subplots(figsize=(6, 4), layout="constrained")
for (name, values), marker in zip(errors.items(), "o^s", strict=True):
    ax.plot(np.multiply(shares, 100), values, marker=marker, label=name)
ax.set(xlabel="missing cells, %", ylabel="error of filled cells (square-root scale)", ylim=(0, None))
ax.legend()
plt.show()

# %%
# For real numbers ``PPCA`` gives each filled cell with a standard deviation. Here a tenth of the measurements of 150
# irises is hidden; columns are standardised.

flowers = load_iris().data
flowers = (flowers - flowers.mean(axis=0)) / flowers.std(axis=0)
gaps = rng.random(flowers.shape) < 0.1
holed = np.where(gaps, np.nan, flowers)
filled, std = PPCA(2).fit(holed).impute(holed, return_std=True)
inside = np.abs(filled - flowers)[gaps] < 2 * std[gaps]
print(f"hidden measurements within two deviations of what was filled in: {inside.mean():.0%}")

fig, ax = plt.subplots(figsize=(5, 4.5), layout="constrained")
ax.errorbar(flowers[gaps], filled[gaps], yerr=2 * std[gaps], fmt="o", markersize=4, elinewidth=0.8)
ax.axline((0, 0), slope=1, color="0.6", zorder=0)
ax.set(xlabel="hidden value", ylabel="filled in, two deviations to either side")
plt.show()
