"""
Rainfall: whether it rains, and how much
========================================

Daily rain at a station is zero on most days and a skewed amount on the others. One distribution cannot say both;
``family="auto"`` takes such a column as two: whether it rains, and how much if it does. Both have loadings, and they
come back as one column.
"""

# %%
# Eight stations, 300 days, two weather systems: fronts from the west reach the first stations, showers the last ones.

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

from anypca import SePCA

rng = np.random.default_rng(5)
fronts, showers = rng.normal(size=(2, 300))
west = np.linspace(1.0, 0.1, 8)
strength = np.outer(fronts, 1.5 * west) + np.outer(showers, 1.5 * west[::-1])
is_wet = rng.random((300, 8)) < 1.0 / (1.0 + np.exp(0.6 - 1.3 * strength))
amount = rng.gamma(2.0, np.exp(0.9 + 0.5 * strength) / 2.0)
rain = pd.DataFrame(
    np.where(is_wet, np.round(amount + 0.05, 1), 0.0), columns=[f"station {j}" for j in range(1, 9)]
)
print(f"dry days: {(rain == 0).to_numpy().mean():.0%}")

model = SePCA(random_state=0).fit(rain)
print(model.family_report_)
print("components:", model.n_components_)

# %%
# A row that was not recorded at some stations is filled in; the mean of a station is the chance of rain times the
# amount on a wet day.

hidden = rain.copy()
hidden.loc[hidden.index[::3], "station 2"] = np.nan
filled = model.impute(hidden)[::3, 1]
found = np.corrcoef(filled, rain["station 2"][::3])[0, 1]
print(f"rain of station 2 on hidden days, correlation with the truth: {found:.2f}")

# %%
# Loadings of both questions on the two systems after a rotation: stations in the west follow one, those in the east the
# other, in whether it rains as well as in how much.

rotated = model.rotate("varimax")
names = np.array(model.layout_.names)
asks = np.char.endswith(names, "> 0")
fig, axes = plt.subplots(1, 2, figsize=(8, 3.6), layout="constrained", sharex=True)
for ax, chosen, title in zip(axes, (asks, ~asks), ("whether it rains", "how much on wet days"), strict=True):
    for k, row in enumerate(rotated.components_):
        ax.plot(range(1, 9), row[chosen], "o-", label=f"component {k + 1}")
    ax.set(title=title, xlabel="station, from west to east", ylabel="loading")
    ax.axhline(0.0, color="grey", linewidth=0.8)
axes[0].legend()
plt.show()
