"""
Which components stand firmly, and which would go?
==================================================

The joint mode of SePCA weighs the data by a number nu: too large, and it keeps noise; too small, and components die.
How near is a fit to either? For every component the survival curve shows how hard the data pull at it, and the dashed
line what it needs to live at the weight of the fit. Noisy copies of three prototypes have three components that live,
and the best candidate for a fourth dies.
"""

# %%
import matplotlib.pyplot as plt

from anypca import ModeOptions, SePCA
from anypca.datasets import make_prototype_bits
from anypca.plotting import plot_survival
from anypca.selection import survival_curve

bits = make_prototype_bits(3, flip=0.1, random_state=2).X
model = SePCA(max_components=8, family="bernoulli", inference="map", fit_intercept=False).fit(bits)
curve = survival_curve(model, bits)
print(f"{model.n_components_} components at nu = {model.nu_:.2f}")

# %%
# Each component has a critical weight, below which it could not live while the others stay as they are. That of the
# candidate is above the weight of the fit.

for name, weight in zip([*"123", "one more"], curve.critical_nu, strict=True):
    print(f"component {name}: needs nu > {weight:.2f}")

# %%
# What would a smaller weight cost? Refits lose the weakest component near its critical weight.

for nu in (0.9 * model.nu_, 0.5 * model.nu_):
    again = SePCA(8, family="bernoulli", inference=ModeOptions(nu=nu), fit_intercept=False).fit(bits)
    print(f"nu = {nu:.2f}: {again.n_components_} components")

# %%
fig, ax = plt.subplots(figsize=(6.5, 4.5), layout="constrained")
plot_survival(curve, ax=ax)
plt.show()
