"""
Draws from the posterior
========================

Bits with hidden cells: how sure can one be of what is hidden? ``BEPCA`` draws scores and loadings from their posterior
and averages its predictions over the draws. With twice as many components as there are, plugged-in modes follow the
noise and are too sure of themselves; averages over draws predict the hidden cells nearly as well as the truth could.
"""

# %%
# Three prototypes of 16 bits, 40 noisy copies of each, a fifth of the cells hidden.

import matplotlib.pyplot as plt
import numpy as np

from anypca import BEPCA, EPCA
from anypca.datasets import make_prototype_bits

drawn = make_prototype_bits(missing=0.2, random_state=0)
rows, columns = np.nonzero(np.isnan(drawn.X))
hidden = drawn.complete[rows, columns]

bayes = BEPCA(6, family="bernoulli", fit_intercept=False, n_draws=200, n_tune=150, n_chains=2).fit(drawn.X)
mode = EPCA(6, family="bernoulli", ridge=1.0, fit_intercept=False).fit(drawn.X)
print(f"dimensions by BIC of the mean predictor: {bayes.rank_}")

# %%
# Mean log-likelihood of the hidden cells; the truth has -0.33 on average.

for name, model in [("averages over draws", bayes), ("plugged-in modes", mode)]:
    value = model.entry_log_likelihood(drawn.X, rows, columns, hidden).mean()
    print(f"{name}: {value:.3f}")

# %%
# Left: predicted probabilities against frequencies. Right: draws of the first two scores of six rows, two of each
# prototype.

fig, (left, right) = plt.subplots(1, 2, figsize=(10, 4.2), layout="constrained")
edges = np.linspace(0, 1, 6)
for name, model in [("averages over draws", bayes), ("plugged-in modes", mode)]:
    probability = model.impute(drawn.X)[rows, columns]
    part = np.digitize(probability, edges[1:-1])
    used = [number for number in range(5) if (part == number).any()]
    said, seen = ([values[part == number].mean() for number in used] for values in (probability, hidden))
    left.plot(said, seen, "o-", label=name)
left.plot([0, 1], [0, 1], color="grey", linewidth=0.8)
left.set(xlabel="predicted probability of a 1", ylabel="share of 1 among the hidden cells")
left.legend()
scores = bayes.posterior_.posterior["scores"].values.reshape(-1, 120, 6)
for number, row in enumerate((0, 1, 40, 41, 80, 81)):
    right.scatter(
        *scores[::3, row, :2].T, s=3, color=f"C{drawn.labels[row]}", alpha=0.5 if number % 2 else 0.9
    )
right.set(xlabel="score 1", ylabel="score 2")
plt.show()
