"""
Text and categories in the table
================================

Most tables of people, shops or patients hold words beside numbers. They need no coding by hand: two labels become a
yes/no answer, ordered ones (ordered categoricals, or words such as low, medium, high) ordinal levels, others a nominal
column, and names stay out of the model. What comes back are labels again.
"""

# %%
# Customers of a shop: their names, a yes/no answer, a plan, a size of household, a satisfaction in words, and numbers.
# Some cells are empty.

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

from anypca import SePCA
from anypca.plotting import plot_scores

rng = np.random.default_rng(2)
wealth, loyalty = rng.normal(size=(2, 300))
noise = rng.normal(size=(4, 300))
table = pd.DataFrame(
    {
        "name": [f"customer {i}" for i in rng.permutation(300)],
        "member": np.where(loyalty + noise[0] > 0.0, "yes", "no"),
        "plan": np.take(["basic", "family", "gold"], np.digitize(wealth + 0.5 * noise[1], [0.2, 1.0])),
        "satisfaction": np.take(
            ["low", "medium", "high"], np.digitize(loyalty + 0.6 * noise[2], [-0.6, 0.7])
        ),
        "income": np.round(np.exp(7.5 + 0.5 * wealth + 0.2 * noise[3]), -1),
        "visits": rng.poisson(np.exp(1.0 + 0.6 * loyalty)),
        "spent": np.round(rng.gamma(3.0, 20.0 * np.exp(0.4 * wealth + 0.4 * loyalty)), 2),
    }
)
holes = table.copy()
for column in ("plan", "satisfaction", "member"):
    holes.loc[rng.random(300) < 0.1, column] = None

model = SePCA(random_state=0).fit(holes)
print(model.family_report_)
print("components:", model.n_components_)

# %%
# Empty cells are filled with the most probable label, which is right far more often than the commonest one would be.

filled = model.impute(holes)
for column in ("plan", "satisfaction", "member"):
    was_empty = holes[column].isna()
    right = (filled[column] == table[column])[was_empty].mean()
    commonest = (table[column] == table[column].mode()[0])[was_empty].mean()
    print(f"{column}: {right:.0%} right, the commonest label {commonest:.0%}")

# %%
# Probabilities of the plans of the first customers, named if frames are asked for.

model.set_output(transform="pandas")
scores = model.transform(holes)
print(model.class_probabilities(scores, "plan").head(4).round(2))

# %%
# The columns of text can colour the picture.

fig, axes = plt.subplots(1, 2, figsize=(9, 4), layout="constrained")
for ax, column in zip(axes, ("plan", "satisfaction"), strict=True):
    plot_scores(model, scores.to_numpy(), color=list(table[column]), ax=ax)
    ax.set_title(column)
plt.show()
