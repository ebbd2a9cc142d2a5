"""
New rows, with gaps, under an old model
=======================================

A model is fitted once; rows arrive later, one at a time and incomplete. Each is solved by itself against the
fitted loadings, so that its scores do not depend on the company it comes in. The fewer cells a row has, the less is
known of it, and the standard deviation says so.
"""

# %%
import matplotlib.pyplot as plt
import numpy as np

from anypca import EPCA
from anypca.datasets import load_digits_counts

digits = load_digits_counts()
old, new = digits.X[:1000], digits.X[1000:]
model = EPCA(10, family="binomial(16)", ridge=30).fit(old)

together = model.transform(new[:5])
alone = np.vstack([model.transform(row[None]) for row in new[:5]])
print("largest difference between a row alone and in company:", np.abs(together - alone).max())

# %%
# Hide more and more of one digit, from the bottom up. The model fills in what it cannot see.

picture = new[11]
hidden_rows = [0, 2, 4, 6]
fig, axes = plt.subplots(2, len(hidden_rows), figsize=(9, 5), layout="constrained")
for (above, below), hidden in zip(axes.T, hidden_rows, strict=True):
    holed = picture.copy()
    holed[64 - 8 * hidden :] = np.nan
    mean, std = model.transform(holed[None], return_std=True)
    filled = model.inverse_transform(mean)
    above.imshow(holed.reshape(8, 8), cmap="gray_r", vmin=0, vmax=16)
    below.imshow(filled.reshape(8, 8), cmap="gray_r", vmin=0, vmax=16)
    above.set_title(f"{8 - hidden} of 8 lines")
    below.set_title(f"mean deviation {std.mean():.2f}", fontsize=9)
    for ax in (above, below):
        ax.set(xticks=[], yticks=[])
axes[0, 0].set_ylabel("seen")
axes[1, 0].set_ylabel("expected")
plt.show()
