"""
Percent cover: shares of a whole
================================

Ecologists write down which share of a plot each species covers. Shares end at 0 and at 100: near the ends a step of one
per cent means more than in the middle. The family ``logit_normal`` works with log-odds, so that the model predicts
covers between 0 and 100, and rare species count as much as the dominant ones.
"""

# %%
# Ten species on 120 plots along a gradient of moisture, from those of dry to those of wet places; covers are recorded
# to half a per cent.

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from sklearn.decomposition import PCA

from anypca import SePCA
from anypca.families import LogitNormal

rng = np.random.default_rng(0)
moisture = rng.normal(size=120)
preference = np.linspace(-1.5, 1.5, 10)
level = np.array([1.2, -2.5, -3.0, -1.0, -3.5, -3.0, 0.2, -2.5, -3.2, -2.0])
odds = level + np.outer(moisture, preference) + 0.6 * rng.normal(size=(120, 10))
cover = np.clip(np.round(200.0 / (1.0 + np.exp(-odds))) / 2.0, 0.5, 99.5)
table = pd.DataFrame(cover, columns=[f"species {c} (%)" for c in "ABCDEFGHIJ"])

print(SePCA(random_state=0).fit(table).family_report_)

# %%
# Covers of species that are always rare do not tell that they end at 100. We know it, and say it.

model = SePCA(family=LogitNormal(upper=100.0), random_state=0).fit(table)
print("components:", model.n_components_)

# %%
# The first component is the gradient. Ordinary PCA sees mostly the few dominant species, whose covers vary most.

scores = model.transform(table)[:, 0]
plain = PCA(1).fit_transform(table)[:, 0]
for name, found in (("SePCA", scores), ("PCA", plain)):
    print(f"{name}: correlation with moisture {abs(np.corrcoef(found, moisture)[0, 1]):.3f}")

# %%
# What the model expects along the gradient stays between 0 and 100, for common and for rare species.

grid = np.linspace(scores.min(), scores.max(), 100)
expected = model.inverse_transform(np.column_stack([grid, *[np.zeros(100)] * (model.n_components_ - 1)]))
fig, ax = plt.subplots(figsize=(6.4, 4.2), layout="constrained")
for j, colour in zip((0, 3, 6, 9), ("C0", "C1", "C2", "C3"), strict=True):
    ax.plot(scores, table.iloc[:, j], ".", color=colour, alpha=0.35, markersize=5)
    ax.plot(grid, expected[:, j], color=colour, label=table.columns[j])
ax.set(xlabel="first component", ylabel="cover (%)", ylim=(0, 100))
ax.legend()
plt.show()
