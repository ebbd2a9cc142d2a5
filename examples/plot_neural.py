"""
Nets: a curve that PCA cuts short
=================================

Rows lie near a curve. One principal component sees a straight line; an autoencoder and a variational autoencoder with
one latent follow the bend. Only the latter is a probability model: it says how likely a new row is, and by that
measure too it beats the straight line.
"""

# %%
import matplotlib.pyplot as plt
import numpy as np

from anypca import PPCA, VAE, Autoencoder

rng = np.random.default_rng(0)
t = rng.normal(size=(700, 1))
X = np.hstack([t, np.sin(2.0 * t), 0.5 * t]) + 0.15 * rng.normal(size=(700, 3))
train, test = X[:500], X[500:]

# %%
# All three have one latent. The nets start at PCA and bend from there.

models = {
    "PPCA": PPCA(1),
    "Autoencoder": Autoencoder(1, activation="tanh", tol=1e-3, max_iter=2000, random_state=0),
    "VAE": VAE(1, family="gaussian", hidden_layer_sizes=8, learning_rate_init=0.01, random_state=0),
}
for model in models.values():
    model.fit(train)

gain = models["VAE"].score(test) - models["PPCA"].score(test)
print(f"log-likelihood of a new row: {gain:.2f} higher for the VAE than for PPCA")

# %%
# Rows rebuilt from their single latent lie on the line or curve that a model has found.

fig, axes = plt.subplots(1, 3, figsize=(10, 3.6), sharex=True, sharey=True, layout="constrained")
for ax, (name, model) in zip(axes, models.items(), strict=True):
    scores = model.transform(test)
    order = np.argsort(scores[:, 0])
    rebuilt = model.inverse_transform(scores)[order]
    ax.scatter(test[:, 0], test[:, 1], s=8, color="0.7")
    ax.plot(rebuilt[:, 0], rebuilt[:, 1], color="#D55E00")
    share = 1.0 - ((test[order] - rebuilt) ** 2).sum() / ((test - train.mean(axis=0)) ** 2).sum()
    ax.set(title=f"{name}: {100 * share:.0f} % of the variance", xlabel="first column")
axes[0].set_ylabel("second column")
plt.show()
