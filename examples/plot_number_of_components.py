"""
How many components?
====================

Three ways to choose the number, on counts that vary more than Poisson counts. ``SePCA`` decides while it fits.
``select_rank`` compares fits with a criterion or by cells that were hidden. All three find the three components of this
table; a Poisson model, which takes the extra variation for structure, asks for more.
"""

# %%
import matplotlib.pyplot as plt

from anypca import EPCA, SePCA
from anypca.datasets import make_low_rank_counts
from anypca.plotting import plot_pruning_path, plot_rank_selection, plot_scree
from anypca.selection import EntryShuffleSplit, select_rank

table = make_low_rank_counts(150, 25, 3, typical_mean=8, size=3, random_state=0)

# %%
# SePCA starts from many components. Those without signal leave, and neighbouring numbers are compared by the
# evidence.

sepca = SePCA(max_components=6).fit(table.X)
print("SePCA:", sepca.n_components_, "components, family", type(sepca.family_).__name__)

# %%
# The same question for EPCA with the negative binomial: BIC with the scores integrated out, and a tenth of the
# cells hidden.

epca = EPCA(family="negative_binomial")
by_bic = select_rank(epca, table.X, ranks=range(1, 6))
by_cells = select_rank(epca, table.X, ranks=range(1, 6), criterion="held_out", cv=EntryShuffleSplit(2))
as_poisson = select_rank(EPCA(family="poisson"), table.X, ranks=range(1, 6))
for name, found in [("BIC", by_bic), ("hidden cells", by_cells), ("BIC, Poisson", as_poisson)]:
    print(f"{name}: {found.best_rank}")

# %%
fig, axes = plt.subplots(2, 2, figsize=(10, 7.5), layout="constrained")
plot_pruning_path(sepca, ax=axes[0, 0])
plot_scree(sepca, ax=axes[0, 1])
plot_rank_selection(by_bic, ax=axes[1, 0])
plot_rank_selection(by_cells, ax=axes[1, 1])
plt.show()
