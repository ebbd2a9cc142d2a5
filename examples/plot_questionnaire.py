"""
A questionnaire: its scales from ordered answers
================================================

Answers from 1 to 6 are neither counts nor measurements: only their order means something. With ``family="auto"`` a
table of ratings is taken as ordinal; the number of components comes out as the number of scales, and a rotation shows
which items belong together.
"""

# %%
# Twenty items of four scales, 400 persons, answers from 1 to 6. People use the answers differently from item to item:
# the distances between them are found for each.

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

from anypca import SePCA

rng = np.random.default_rng(3)
SCALES = ["calm", "open", "kind", "neat"]
traits = rng.normal(size=(400, 4))
names = [f"{scale} {i}" for scale in SCALES for i in range(1, 6)]
latent = 1.6 * np.repeat(traits, 5, axis=1) + rng.logistic(size=(400, 20))
cuts = np.sort(rng.normal(0.0, 2.0, size=(20, 5)), axis=1)
answers = 1 + (latent[:, :, None] > cuts).sum(axis=2)
table = pd.DataFrame(answers, columns=names)[rng.permutation(names)]

model = SePCA(random_state=0).fit(table)
for group in model.family_report_.groups():
    print(f"{len(group.columns)} columns are {group.family}: {group.rule}")
print("components:", model.n_components_)

# %%
# Any turn of the axes fits as well. Varimax looks for the one in which each item loads on few components; its scores
# are the scales.

rotated = model.rotate("varimax")
loadings = pd.DataFrame(rotated.components_.T, index=table.columns).loc[names]
scores = rotated.transform(table)
matched = np.abs(np.corrcoef(scores.T, traits.T)[: scores.shape[1], scores.shape[1] :])
print("largest correlation of each trait with a component:", matched.max(axis=0).round(2))

# %%
# The loadings, items in the order of the questionnaire's plan: one block for each scale.

fig, ax = plt.subplots(figsize=(4.2, 5.6), layout="constrained")
limit = np.abs(loadings.to_numpy()).max()
picture = ax.imshow(loadings, cmap="RdBu_r", vmin=-limit, vmax=limit, aspect="auto")
ax.set(xticks=range(loadings.shape[1]), xticklabels=[f"{k + 1}" for k in range(loadings.shape[1])])
ax.set(yticks=range(20), yticklabels=names, xlabel="component after varimax")
fig.colorbar(picture, label="loading (logits per standard deviation)")
plt.show()
