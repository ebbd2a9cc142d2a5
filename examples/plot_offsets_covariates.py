"""
Offsets and covariates: what is left when the known is taken out
================================================================

Counts of species at sites depend on how long one looked (the effort) and on known conditions, here low land and high
land. What remains? Without offset and covariates PLNPCA shows the known influences again. With them the first
component is the hidden gradient that we look for.
"""

# %%
import matplotlib.pyplot as plt
import numpy as np

from anypca import PLNPCA

rng = np.random.default_rng(0)
n_sites, n_species = 150, 25
effort = np.exp(rng.normal(0.0, 1.0, size=n_sites))
high = rng.integers(0, 2, size=n_sites)
gradient = rng.normal(size=n_sites)
known_part = np.outer(high, rng.normal(0, 1.0, n_species))
hidden_part = np.outer(gradient, rng.normal(0, 0.4, n_species))
counts = rng.poisson(effort[:, None] * np.exp(1 + known_part + hidden_part))

plain = PLNPCA(2).fit(counts)
known = {"offset": np.log(effort), "covariates": high[:, None]}
adjusted = PLNPCA(2).fit(counts, **known)

# %%
# Scores of both models, and their correlation with what we know to be behind the table.

found = {
    "without": plain.transform(counts)[:, 0],
    "with offset and covariate": adjusted.transform(counts, **known)[:, 0],
}
for name, first in found.items():
    to_gradient, to_effort, _ = np.abs(np.corrcoef([gradient, np.log(effort), first])[2])
    print(f"{name}: correlation with the gradient {to_gradient:.2f}, with the effort {to_effort:.2f}")

# %%
# If the efforts are not recorded, ``anypca.offsets`` estimates them from the counts (total counts, TSS, RLE, TMM).

fig, axes = plt.subplots(1, 2, figsize=(10, 4.2), layout="constrained", sharex=True)
for ax, (name, first) in zip(axes, found.items(), strict=True):
    for level, label, marker in [(0, "low land", "o"), (1, "high land", "^")]:
        ax.scatter(gradient[high == level], first[high == level], s=16, marker=marker, label=label)
    ax.set(title=name, xlabel="hidden gradient", ylabel="first score")
axes[0].legend()
plt.show()
