"""
Marks that bend: piecewise PCA of any family
============================================

Eight tests of ten questions each, 200 pupils. Up to some ability the first four tests grow with it, beyond it they are
flat and the others grow: a bend that no plane follows. The marks are numbers of right answers, so the family is the
binomial, and the pieces meet in the logits. BIC prefers two pieces; the slopes say which tests belong to which side.
"""

# %%
import matplotlib.pyplot as plt
import numpy as np

from anypca import PiecewisePCA
from anypca.families import Binomial

rng = np.random.default_rng(0)
ability = rng.normal(size=200)
easy, hard = np.minimum(ability, 0.0)[:, None], np.maximum(ability, 0.0)[:, None]
logits = np.hstack([1.0 + 2.5 * easy * np.ones(4), -1.0 + 2.5 * hard * np.ones(4)])
marks = rng.binomial(10, 1.0 / (1.0 + np.exp(-logits)))

fits = [PiecewisePCA(1, n_pieces=k, family=Binomial(10), n_init=3, tol=1e-3).fit(marks) for k in (1, 2)]
for model in fits:
    print(f"{model.n_pieces} piece(s): BIC {model.bic_:.0f}")

# %%
# Left: the slopes of the two pieces. Right: the latent coordinate against the ability, with error bars.

bent = fits[1]
slopes, names = bent.piece_loadings_[:, :, 0], [f"test {j + 1}" for j in range(8)]
scores, std = bent.transform(marks, return_std=True)
fig, (left, right) = plt.subplots(1, 2, figsize=(10, 4.2), layout="constrained")
for k, (shift, label) in enumerate([(-0.2, "below the hinge"), (0.2, "above")]):
    left.bar(np.arange(8) + shift, slopes[k], width=0.4, label=label)
left.set_xticks(np.arange(8), names, rotation=45)
left.set_ylabel("slope of the logit along t")
left.set_ylim(top=3.4)
left.legend(frameon=False)
right.errorbar(ability, scores[:, 0], yerr=std[:, 0], fmt="o", ms=3, elinewidth=0.5)
right.set_xlabel("ability")
right.set_ylabel("t (posterior mean and standard deviation)")
plt.show()
