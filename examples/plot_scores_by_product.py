"""
Scores by a matrix product
==========================

EPCA solves a small problem for each new row; GPCA projects what the row says onto fixed directions, which is one matrix
product. What does the short cut cost? On yes/no answers the scores are nearly as close to the truth, and new rows
take a fraction of the time.
"""

# %%
# 500 rows to fit and 20 000 new ones, 40 questions, two hidden traits.

from time import perf_counter

import matplotlib.pyplot as plt
import numpy as np
from sklearn.linear_model import LinearRegression

from anypca import EPCA, GPCA
from anypca.datasets import make_low_rank

table = make_low_rank(20_500, 40, 2, family="bernoulli", signal=1.5, random_state=0)
old, new, truth = table.X[:500], table.X[500:], table.scores[500:]

# %%
# Scores have a scale and a rotation of their own, so we ask how much of the true scores a linear map of the found ones
# explains.

seconds, explained = {}, {}
for model in (EPCA(2, family="bernoulli", n_jobs=1), GPCA(2, family="bernoulli", n_jobs=1)):
    name = type(model).__name__
    model.fit(old)
    start = perf_counter()
    scores = model.transform(new)
    seconds[name] = perf_counter() - start
    explained[name] = LinearRegression().fit(scores, truth).score(scores, truth)
    print(f"{name}: {explained[name]:.1%} of the true scores explained")

# %%
fig, (left, right) = plt.subplots(1, 2, figsize=(9, 3.6), layout="constrained")
left.bar(list(explained), np.multiply(list(explained.values()), 100), width=0.5, color=["C0", "C1"])
left.set(ylabel="true scores explained, %", ylim=(0, 100))
right.bar(list(seconds), list(seconds.values()), width=0.5, color=["C0", "C1"])
right.set(ylabel="seconds for 20 000 new rows")
plt.show()
