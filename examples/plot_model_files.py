"""
Models in files
===============

A fitted model can be kept and sent to others. ``anypca.save`` writes a file without pickle, ``anypca.load`` reads it
and runs nothing that is in it. The loaded model gives the same scores to the last bit, and a damaged file is refused.
"""

# %%
import tempfile
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

import anypca
from anypca.datasets import make_low_rank_counts
from anypca.exceptions import ModelFileError

table = make_low_rank_counts(150, 20, 2, typical_mean=5, random_state=0)
model = anypca.EPCA(2, family="poisson").fit(table.X)

with tempfile.TemporaryDirectory() as folder:
    path = Path(folder) / "counts.anypca"
    anypca.save(model, path)
    again = anypca.load(path)
    print(f"{path.stat().st_size / 1000:.0f} kB")

    damaged = bytearray(path.read_bytes())
    damaged[len(damaged) // 2] ^= 1
    path.write_bytes(damaged)
    try:
        anypca.load(path)
    except ModelFileError as error:
        print(f"one bit flipped: {str(error).replace(folder, '...')}")

# %%
# The same scores, bit for bit.

before, after = model.transform(table.X), again.transform(table.X)
print("equal:", np.array_equal(before, after))

fig, ax = plt.subplots(figsize=(5, 4.5), layout="constrained")
ax.scatter(*before.T, s=40, facecolors="none", edgecolors="C0", label="before saving")
ax.scatter(*after.T, s=6, color="C1", label="after loading")
ax.set(xlabel="PC1", ylabel="PC2")
ax.legend()
plt.show()
