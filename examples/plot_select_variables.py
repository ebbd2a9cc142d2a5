"""
Which variables carry the components?
=====================================

Sparse components each have their own columns. Globally sparse PCA asks another question: which columns take part at
all? Of 30 variables 10 belong to a subspace of 5 dimensions and the rest is noise. GSPPCA ranks the variables, computes
the evidence of the first 1, 2, 3, ... of them, and stops at 10.
"""

# %%
import matplotlib.pyplot as plt
import numpy as np

from anypca import GSPPCA
from anypca.datasets import make_globally_sparse
from anypca.plotting import plot_evidence_path, plot_support

table = make_globally_sparse(random_state=0)
model = GSPPCA(n_components=5).fit(table.X)
print("selected:", model.get_support(indices=True))
print("true:    ", np.flatnonzero(table.support))

# %%
# Left: the evidence rises as long as true variables come in and falls after. Right: the relevances behind the order.

fig, (left, right) = plt.subplots(1, 2, figsize=(10, 4.2), layout="constrained")
plot_evidence_path(model, ax=left)
plot_support(model, ax=right)
plt.show()
