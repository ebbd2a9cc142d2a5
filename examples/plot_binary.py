"""
Yes and no: prototypes behind noisy bits
========================================

Each row is a copy of one of three prototypes of 16 bits, in which every tenth bit is flipped. Do we see the groups, and
does the model find how many directions there are? Around their mean three points span a plane, so two components
are right, and SePCA finds two.
"""

# %%
import matplotlib.pyplot as plt
import numpy as np

from anypca import SePCA
from anypca.datasets import make_prototype_bits
from anypca.plotting import plot_scores

bits = make_prototype_bits(3, samples_per_prototype=60, flip=0.1, random_state=0)
model = SePCA(max_components=8, family="bernoulli")
scores = model.fit_transform(bits.X)
print(f"{model.n_components_} components of at most 8")

# %%
# The fitted probabilities undo the noise: rounding them gives back the prototypes in all but a few bits.

probabilities = model.inverse_transform(scores)
truth = bits.prototypes[bits.labels] > 0.5
wrong_before, wrong_after = (np.mean((table > 0.5) != truth) for table in (bits.X, probabilities))
print(f"wrong bits: {wrong_before:.1%} in the table, {wrong_after:.1%} after the fit")

# %%
order = np.argsort(bits.labels, kind="stable")
fig, (left, middle, right) = plt.subplots(1, 3, figsize=(11, 4), layout="constrained", width_ratios=[2, 1, 1])
plot_scores(model, scores, color=[f"prototype {label + 1}" for label in bits.labels], ax=left)
for ax, table, title in [(middle, bits.X, "the table"), (right, probabilities, "fitted probabilities")]:
    ax.imshow(table[order], aspect="auto", cmap="cividis", vmin=0, vmax=1, interpolation="nearest")
    ax.set(title=title, xlabel="bit", ylabel="row, by prototype", yticks=[])
plt.show()
