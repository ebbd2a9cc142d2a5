"""
A mixed table: every column its own family
==========================================

Survey tables hold counts, yes/no answers, amounts of money and measurements side by side. Ordinary PCA lets the column
with the largest numbers win. With ``family="auto"`` each column gets the distribution that its values call for, and
the model says what it chose and why.
"""

# %%
# We draw a table with one hidden trait, which shows in all columns, in four ways.

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from sklearn.decomposition import PCA

from anypca import SePCA
from anypca.plotting import plot_loadings

rng = np.random.default_rng(1)
trait = rng.normal(size=300)
table = pd.DataFrame(
    {
        "visits": rng.poisson(np.exp(0.7 + 0.6 * trait)),
        "complaints": rng.poisson(np.exp(-0.5 - 0.5 * trait)),
        "member": rng.random(300) < 1 / (1 + np.exp(-1.5 * trait)),
        "would return": rng.random(300) < 1 / (1 + np.exp(0.5 - 1.2 * trait)),
        "money spent": rng.gamma(2.0, 20 * np.exp(0.5 * trait)),
        "height": rng.normal(170, 10, size=300),
        "satisfaction": 5 + 1.5 * trait + rng.normal(size=300),
    }
)
table.loc[rng.random(300) < 0.1, "satisfaction"] = np.nan

model = SePCA(max_components=5).fit(table)
print(model.family_report_)

# %%
# One component is found. It orders the rows by the trait; the first component of ordinary PCA is the money, because
# money has the largest variance. (Ordinary PCA needs complete cells, so it gets the column mean for the missing ones.)

scores = model.transform(table)[:, 0]
plain = PCA(1).fit_transform(table.fillna(table.mean()))[:, 0]
print("components:", model.n_components_)
print(f"correlation with the trait: SePCA {abs(np.corrcoef(scores, trait)[0, 1]):.2f}", end=", ")
print(f"PCA {abs(np.corrcoef(plain, trait)[0, 1]):.2f}")

# %%
# Loadings with their posterior standard deviations: height has nothing to do with the trait.

fig, ax = plt.subplots(figsize=(6, 4), layout="constrained")
plot_loadings(model, 1, feature_names=list(table.columns), ax=ax)
plt.show()
