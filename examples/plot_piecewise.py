"""
A bent sheet: piecewise PCA
===========================

The points lie near a sheet with a fold. A plane cannot follow it: PCA takes the bend for noise. Piecewise PCA has one
plane on each side and lets them meet at the fold. The data say so themselves: BIC prefers two pieces to one, by far.
"""

# %%
import matplotlib.pyplot as plt

from anypca import PiecewisePCA
from anypca.datasets import make_hinge
from anypca.plotting import plot_hinge, plot_latent_pieces

sheet = make_hinge(300, random_state=0)
flat = PiecewisePCA(2, n_pieces=1).fit(sheet.X)
bent = PiecewisePCA(2, n_pieces=2, n_init=8).fit(sheet.X)
for name, model in [("one piece", flat), ("two pieces", bent)]:
    print(f"{name}: BIC {model.bic_:.0f}, noise variance {model.noise_variance_:.4f} (truth: 0.0100)")

# %%
# Left: the table in two of its three columns with the path of the model. Right: the latent plane, in which a line
# separates the pieces.

fig, (left, right) = plt.subplots(1, 2, figsize=(10, 4.2), layout="constrained")
plot_hinge(bent, sheet.X, features=(0, 2), ax=left)
plot_latent_pieces(bent, sheet.X, ax=right)
plt.show()
