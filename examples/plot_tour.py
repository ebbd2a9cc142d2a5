"""
A tour of the pictures
======================

Every function of ``anypca.plotting`` draws into given Axes, or new ones, and returns them. All work on any fitted model
that has what is drawn. Names of columns do not overlap and long ones are cut.
"""

# %%
import matplotlib.pyplot as plt

from anypca import SePCA
from anypca.datasets import load_digits_counts
from anypca.plotting import (
    plot_biplot,
    plot_correlation_circle,
    plot_fitted,
    plot_loadings,
    plot_pruning_path,
    plot_scores,
    plot_scree,
    plot_trace,
)

digits = load_digits_counts()
keep = digits.target < 4
X, target = digits.X[keep][:200], digits.target[keep][:200]
names = list(digits.feature_names)
model = SePCA(max_components=4, family="binomial(16)", tol=1e-3)
scores = model.fit_transform(X)
_, std = model.transform(X, return_std=True)

# %%
# What the fit did: deviance explained by each component, and the objective over the iterations.

fig, (left, right) = plt.subplots(1, 2, figsize=(10, 4), layout="constrained")
plot_scree(model, ax=left)
plot_trace(model, ax=right)
plt.show()

# %%
# What the components mean: the strongest loadings with their deviations, and the correlations with the columns.

fig, (left, right) = plt.subplots(1, 2, figsize=(10, 4.6), layout="constrained")
plot_loadings(model, 1, top=12, feature_names=names, ax=left)
plot_correlation_circle(model, scores, X, feature_names=names, ax=right)
plt.show()

# %%
# Where the rows lie: with uncertainty, and together with the columns.

fig, (left, right) = plt.subplots(1, 2, figsize=(10, 4.6), layout="constrained")
plot_scores(model, scores, std, color=[str(digit) for digit in target], ax=left)
plot_biplot(model, scores, feature_names=names, color=[str(digit) for digit in target], top=8, ax=right)
plt.show()

# %%
# How good the fit is: observed cells against fitted means. The last picture tells why the number of components is
# what it is.

fig, (left, right) = plt.subplots(1, 2, figsize=(10, 4), layout="constrained")
plot_fitted(model, X, ax=left)
plot_pruning_path(model, ax=right)
plt.show()
