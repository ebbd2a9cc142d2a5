"""
Memory maps, sparse matrices, Dask: one result
==============================================

A table need not fit into memory. The type of X decides how it is read, and nothing else changes: a memory-mapped file,
a sparse matrix and a Dask array give the components of the table in memory.
"""

# %%
import tempfile
from pathlib import Path

import dask.array
import matplotlib.pyplot as plt
import numpy as np
from scipy import sparse

from anypca import EPCA
from anypca.datasets import make_low_rank_counts

table = make_low_rank_counts(2000, 40, 2, typical_mean=0.6, random_state=0).X
model = EPCA(2, family="poisson")

components = {"in memory": model.fit(table).components_}
components["sparse"] = model.fit(sparse.csr_array(table)).components_
components["Dask"] = model.fit(dask.array.from_array(table, chunks=(500, 40))).components_
with tempfile.TemporaryDirectory() as folder:
    path = Path(folder) / "counts.npy"
    np.save(path, table)
    components["memory map"] = model.fit(np.load(path, mmap_mode="r")).components_

# %%
for name, found in components.items():
    print(f"{name}: largest difference {np.abs(found - components['in memory']).max():.1e}")

# %%
# Two of the four on top of each other.

fig, ax = plt.subplots(figsize=(8, 3.6), layout="constrained")
ax.plot(components["in memory"][0], "o", markersize=9, markerfacecolor="none", label="in memory")
ax.plot(components["Dask"][0], ".", label="Dask")
ax.set(xlabel="column", ylabel="loading on PC1")
ax.legend()
plt.show()
