"""Autoencoder: its loss, its start, the coordinates of its latents, and what it says of rows."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from scipy.optimize import check_grad
from sklearn.decomposition import PCA
from sklearn.neural_network import MLPRegressor

from anypca import Autoencoder
from anypca.engine import check_data
from anypca.exceptions import ConvergenceWarning
from anypca.models._network import ACTIVATIONS, Network, glorot
from anypca.models._session import open_session
from anypca.models.autoencoder._canonical import change_coordinates, linear_part
from anypca.models.autoencoder._problem import Scaling, SquaredError, split
from anypca.models.autoencoder._start import Directions, can_carry, carry

pytestmark = pytest.mark.filterwarnings("ignore::anypca.exceptions.ConvergenceWarning")
RNG = np.random.default_rng(0)
BENT = RNG.standard_normal((300, 1))
# A sheet that is bent along its first direction.
X = np.hstack([BENT, np.abs(BENT), -BENT, np.abs(BENT) + BENT, RNG.standard_normal((300, 1)) @ [[1.0, 0.5]]])
X = X + 0.1 * RNG.standard_normal(X.shape)
PLAIN = Scaling(np.zeros(6), np.ones(6))


def fitted(**settings):
    return Autoencoder(**{"n_components": 2, "max_iter": 100, "random_state": 0, "n_jobs": 1} | settings).fit(
        X
    )


def nets(activation="tanh"):
    made = glorot([6, 5, 2, 5, 6], [activation, "identity", activation, "identity"], np.random.default_rng(1))
    found = split(made, 2)
    return found.with_vector(found.vector + 0.1 * np.random.default_rng(2).standard_normal(found.vector.size))


@pytest.mark.parametrize("weighted", [False, True])
def test_the_gradient_of_the_loss_is_its_difference(weighted):
    weight = np.linspace(0.5, 2.0, 300) if weighted else None
    with open_session(check_data(X, sample_weight=weight, block_rows=100), n_jobs=1) as session:
        problem = SquaredError(session, PLAIN, nets(), 0.3, 0.2)
        assert (
            check_grad(
                lambda v: problem.value_and_gradient(v)[0],
                lambda v: problem.value_and_gradient(v)[1],
                nets().vector,
            )
            < 1e-5
        )


def test_the_loss_is_that_of_scikit_learn():
    made = nets("relu")
    theirs = MLPRegressor(hidden_layer_sizes=(5, 2, 5), alpha=0.7, max_iter=1, batch_size=300, shuffle=False)
    theirs.partial_fit(X, X)
    # The loss of a step is computed before it; their latent layer is relu.
    layers = [*made.encoder.layers[:-1], made.encoder.layers[-1]._replace(activation="relu")]
    whole = Network((*layers, *made.decoder.layers))
    theirs.coefs_ = [layer.weights.copy() for layer in whole.layers]
    theirs.intercepts_ = [layer.bias.copy() for layer in whole.layers]
    theirs.set_params(learning_rate_init=1e-12)
    theirs.partial_fit(X, X)
    with open_session(check_data(X), n_jobs=1) as session:
        problem = SquaredError(session, PLAIN, split(whole, 2), 0.7, 0.0)
        value = problem.value_and_gradient(split(whole, 2).vector)[0]
    # Theirs is a mean over columns too, but not the ridge.
    ridge = 0.5 * 0.7 * sum((layer.weights**2).sum() for layer in whole.layers) / 300
    assert_allclose((-value - ridge) / 6 + ridge, theirs.loss_, rtol=1e-8)


@pytest.mark.parametrize("activation", ["relu", "softplus", "identity"])
@pytest.mark.parametrize("hidden", [(4,), (7, 5)], ids=str)
def test_the_start_is_principal_component_analysis(activation, hidden):
    pca = PCA(2).fit(X)
    sizes = [6, *hidden, 2, *reversed(hidden), 6]
    one_way = [activation] * len(hidden)
    network = glorot(sizes, [*one_way, "identity", *one_way, "identity"], np.random.default_rng(0))
    start = carry(
        network, Directions(pca.components_.T, np.sqrt(pca.explained_variance_)), latent=len(hidden)
    )
    centred = X - pca.mean_
    assert_allclose(start(centred), centred @ pca.components_.T @ pca.components_, atol=1e-12)


@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_reconstruction_is_no_worse_than_that_of_principal_components(activation):
    Z = (X - X.mean(axis=0)) / X.std(axis=0)
    linear = PCA(2).fit(Z).explained_variance_ratio_.sum()
    model = fitted(activation=activation, max_iter=60, alpha=0.0)
    assert model.r2_ >= linear - 1e-3  # where activations are bent the start is not quite linear
    again = model.inverse_transform(model.transform(X))
    left = ((X - again) / X.std(axis=0)) ** 2
    assert_allclose(model.r2_, 1.0 - left.sum() / (Z**2).sum(), rtol=1e-10)


def test_narrow_layers_and_bent_ends_start_at_random():
    assert can_carry((4,), 2, ("identity", "identity"))
    assert not can_carry((4, 3), 2, ("identity", "identity"))
    assert not can_carry((4,), 2, ("identity", "relu"))
    assert can_carry((), 2, ("identity", "identity"))


def test_a_bend_is_found_where_planes_miss_it():
    flat = fitted(hidden_layer_sizes=())
    bent = fitted(max_iter=300)
    assert bent.r2_ > flat.r2_ + 0.02
    assert_allclose(
        flat.r2_, PCA(2).fit((X - X.mean(0)) / X.std(0)).explained_variance_ratio_.sum(), atol=1e-4
    )


def test_the_loss_never_rises_and_running_out_of_steps_is_told():
    with pytest.warns(ConvergenceWarning, match="Autoencoder: stopped at max_iter"):
        model = fitted(max_iter=30, tol=0.0)
    assert (np.diff(model.objective_trace_) >= 0).all()
    assert model.objective_trace_.shape == (model.n_iter_,)
    assert not model.converged_
    assert model.loss_ == -model.objective_trace_[-1]


def test_latents_do_not_depend_on_the_coordinates_of_the_net():
    made, scaling = nets(), Scaling(X.mean(axis=0), X.std(axis=0))
    matrix, shift = np.array([[2.0, 0.3], [-1.0, 0.5]]), np.array([1.0, -3.0])
    last, first = made.encoder.layers[-1], made.decoder.layers[0]
    moved = last._replace(weights=last.weights @ matrix, bias=last.bias @ matrix + shift)
    inverse = np.linalg.inv(matrix)
    opened = first._replace(
        weights=inverse @ first.weights, bias=first.bias - shift @ inverse @ first.weights
    )
    found = []
    with open_session(check_data(X), n_jobs=1) as session:
        for encoder, decoder in (
            (made.encoder, made.decoder),
            (Network((*made.encoder.layers[:-1], moved)), Network((opened, *made.decoder.layers[1:]))),
        ):
            part = linear_part(session, scaling, encoder)
            encoder, decoder = change_coordinates(encoder, decoder, part)
            Z = scaling.apply(X)
            found.append((encoder(Z), decoder(encoder(Z)), part.axes, part.sizes))
    for one, other in zip(*found, strict=True):
        assert_allclose(one, other, atol=1e-10)
    latents, rebuilt, axes, sizes = found[0]
    assert_allclose(rebuilt, made.decoder(made.encoder(scaling.apply(X))), atol=1e-12)
    assert_allclose(latents.T @ latents, np.diag(sizes**2), atol=1e-8)
    assert_allclose(axes @ axes.T, np.eye(2), atol=1e-12)


def test_latents_are_straight_though_a_decoder_could_undo_any_stretching():
    """Of each seed the first latent is the first principal component, nearly."""
    first = PCA(1).fit_transform((X - X.mean(axis=0)) / X.std(axis=0))[:, 0]
    for seed in range(3):
        latents = fitted(random_state=seed, max_iter=200).transform(X)[:, 0]
        assert abs(np.corrcoef(latents, first)[0, 1]) > 0.97


@pytest.mark.parametrize(("hidden", "expected"), [((8,), 322), ((16, 8), 866)], ids=str)
def test_numbers_of_parameters(hidden, expected):
    table = np.random.default_rng(0).standard_normal((40, 16))
    model = Autoencoder(2, hidden_layer_sizes=hidden, max_iter=2).fit(table)
    assert model.n_parameters_ == expected


def test_a_relu_output_is_never_below_the_smallest_mean():
    model = fitted(latent_activation="relu", output_activation="relu")
    again = model.inverse_transform(model.transform(X))
    assert (again >= model.mean_ - 1e-12).all()
    assert (model.transform(X) >= 0).all()


def test_containers_and_blocks_give_the_same_net():
    # A few steps: rounding grows by a small factor in each.
    whole = fitted(max_iter=5)
    halves = Autoencoder(2, max_iter=5, random_state=0).fit(sparse.csr_array(X))
    assert_allclose(halves.transform(X), whole.transform(X), atol=1e-6)


def test_a_weight_of_two_is_a_row_twice():
    weight = np.r_[np.full(100, 2.0), np.ones(200)]
    one = Autoencoder(2, max_iter=5, random_state=0).fit(X, sample_weight=weight)
    two = Autoencoder(2, max_iter=5, random_state=0).fit(np.vstack([X[:100], X]))
    assert_allclose(one.loss_, two.loss_, rtol=1e-8)
    assert_allclose(one.r2_, two.r2_, rtol=1e-8)


def test_more_starts_are_no_worse():
    few, many = fitted(init="random", max_iter=20), fitted(init="random", max_iter=20, n_init=4)
    assert many.loss_ <= few.loss_


def test_samples_are_scored_by_their_distance():
    model = fitted()
    left = ((X - model.inverse_transform(model.transform(X))) / model.scale_) ** 2
    assert_allclose(model.score_samples(X), -left.sum(axis=1), rtol=1e-8)


def test_constant_and_equal_columns_do_no_harm():
    table = np.hstack([X, np.ones((300, 1)), X[:, :1]])
    model = Autoencoder(3, max_iter=20, random_state=0).fit(table)
    assert np.isfinite(model.transform(table)).all()
    constant = Autoencoder(2, max_iter=5).fit(np.ones((10, 3)))
    assert constant.r2_ == 0
    assert_array_equal(constant.inverse_transform(constant.transform(np.ones((10, 3)))), np.ones((10, 3)))


def test_latents_are_at_most_as_many_as_columns():
    assert Autoencoder(9, max_iter=3).fit(X[:20]).n_components_ == 6


def test_missing_entries_are_refused_by_name():
    holes = X.copy()
    holes[3, 1] = np.nan
    with pytest.raises(ValueError, match=r"X\[3, 1\] is NaN; Autoencoder needs every entry"):
        fitted().transform(holes)
    with pytest.raises(ValueError, match=r"X\[3, 1\].*is NaN; Autoencoder needs every entry"):
        Autoencoder().fit(holes)


def test_an_activation_by_another_name_is_suggested():
    with pytest.raises(ValueError, match="Did you mean 'identity'"):
        fitted(latent_activation="linear")
