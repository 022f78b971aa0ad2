"""StochasticAutoencoderHash against enumeration; what every parameter promises."""

import itertools

import numpy as np
import pytest
import torch
from cases import each
from numpy.polynomial.hermite_e import hermegauss
from scipy import sparse, stats
from scipy.special import expit, logsumexp, softmax
from sklearn.base import clone
from skorch.callbacks import Callback, LRScheduler

from skhash import StochasticAutoencoderHash, load
from skhash.gradients import ARM, GRADIENTS, DisARM, Reinforce, StraightThrough
from skhash.neural import Correction, CorrelatedPosterior
from skhash.noise import Logistic
from skhash.training import LinearSchedule

N_TOPICS, N_FEATURES, N_BITS = 3, 12, 3
STATES = np.array(list(itertools.product([0, 1], repeat=N_BITS)))
DECODERS = ["multinomial", "bernoulli", "gaussian"]
POSTERIORS = {
    "independent": "independent",
    "correlated": CorrelatedPosterior(rank=2, n_mixture=2),
}
TINY = {
    "encoder_input": "values",
    "n_bits": N_BITS,
    "hidden_layer_sizes": (6,),
    "decoder_hidden_layer_sizes": (),
    "max_epochs": 3,
    "dropout": 0.0,
    "kl_weight": 0.0,
    "lr": 0.01,
    "device": "cpu",
    "random_state": 0,
}


def make(**options):
    return StochasticAutoencoderHash(**(TINY | options))


def topics(n_samples=60, seed=0):
    """Counts of words, each topic with its own four."""
    rng = np.random.default_rng(seed)
    y = np.arange(n_samples) % N_TOPICS
    rates = np.full((N_TOPICS, N_FEATURES), 0.1)
    for topic in range(N_TOPICS):
        rates[topic, 4 * topic : 4 * topic + 4] = 2.0
    return rng.poisson(rates[y]).astype(np.float32)


COUNTS = topics()
DATA = {
    "multinomial": COUNTS,
    "bernoulli": (COUNTS > 0).astype(np.float32),
    "gaussian": np.log1p(COUNTS) * 3 - 1,
}
CORRELATED = {"posterior": POSTERIORS["correlated"], "kl_weight": 0.5}
ONE_MORE = {"correction": Correction(n_epochs=1)}
each_decoder = pytest.mark.parametrize("decoder", DECODERS)
each_posterior = pytest.mark.parametrize(
    "posterior", POSTERIORS.values(), ids=POSTERIORS
)


def weights(encoder):
    """All that was learned, as one vector."""
    lists = (
        encoder.coefs_,
        encoder.intercepts_,
        encoder.decoder_coefs_,
        encoder.decoder_intercepts_,
    )
    return np.concatenate([array.ravel() for arrays in lists for array in arrays])


# The bound against enumeration and quadrature


def log_joint(encoder, X):
    """log p(x, s) of each row and each code, from public attributes alone."""
    decoded = encoder.inverse_transform(STATES).astype(float)
    if encoder.decoder == "multinomial":
        log_p = X @ np.log(decoded).T
    elif encoder.decoder == "bernoulli":
        log_p = stats.bernoulli(decoded).logpmf(X[:, None, :]).sum(axis=-1)
    else:
        log_p = stats.norm(decoded, encoder.rho_).logpdf(X[:, None, :]).sum(axis=-1)
    return log_p + N_BITS * np.log(0.5)


def code_probabilities(logits):
    """P(code) of independent bits, logistic noise of scale 1: shape (..., n_codes)."""
    return expit(2 * (2 * STATES - 1) * logits[..., None, :]).prod(axis=-1)


def estimated_bound(encoder, X, n_trials=12, **options):
    """The mean of `bound` over seeds and its standard error."""
    trials = [encoder.bound(X, random_state=i, **options) for i in range(n_trials)]
    return np.mean(trials, axis=0), np.std(trials, axis=0, ddof=1) / n_trials**0.5


@each_decoder
def test_bound_of_independent_bits_is_the_enumerated_one(decoder):
    X = DATA[decoder]
    encoder = make(decoder=decoder, max_epochs=15, kl_weight=0.5).fit(X)
    q = code_probabilities(encoder.decision_function(X).astype(float))
    joint = log_joint(encoder, X)
    expected = (q * (joint - np.log(q))).sum(axis=1)
    assert (expected < logsumexp(joint, axis=1)).all()
    for rows in (X, sparse.csr_array(X)):
        value, error = estimated_bound(encoder, rows, n_samples=20)
        assert (np.abs(value - expected) < 5 * error + 1e-3).all()


def nodes_of_r(encoder, X, n_nodes=8):
    """q(s|r) at Gauss-Hermite nodes of r for each row, and the nodes' weights."""
    rows = X if encoder.mean_ is None else X - encoder.mean_
    hidden = np.maximum(rows @ encoder.coefs_[0] + encoder.intercepts_[0], 0)
    mu = hidden @ encoder.coefs_[1] + encoder.intercepts_[1]
    np.testing.assert_allclose(mu, encoder.decision_function(X), atol=1e-4)
    heads = hidden @ encoder.covariance_coef_ + encoder.covariance_intercept_
    std = np.logaddexp(0, heads[:, :N_BITS])
    factor = np.tanh(heads[:, N_BITS:]).reshape(len(X), N_BITS, encoder.posterior.rank)
    factor = factor * encoder.posterior.rank**-0.5
    covariance = std[:, None] ** 2 * np.eye(N_BITS) + factor @ factor.swapaxes(1, 2)
    nodes, weight = hermegauss(n_nodes)
    z = np.array(list(itertools.product(nodes, repeat=N_BITS)))
    weight = np.array(list(itertools.product(weight, repeat=N_BITS))).prod(axis=1)
    r = mu[:, None] + z @ np.linalg.cholesky(covariance).swapaxes(1, 2)
    return code_probabilities(r), weight / weight.sum()


@each_decoder
def test_bound_of_correlated_bits_lies_between_those_of_quadrature(decoder):
    X = DATA[decoder]
    encoder = clone(make(decoder=decoder, max_epochs=15, **CORRELATED)).fit(X)
    X = X[:12]
    joint = log_joint(encoder, X)[:, None]
    q, weight = nodes_of_r(encoder, X)
    first = (q * (joint - np.log(q))).sum(axis=-1) @ weight
    q = np.einsum("nrs,r->ns", q, weight)
    last = (q * (joint[:, 0] - np.log(q))).sum(axis=1)
    assert (first < last).all() and (last < logsumexp(joint[:, 0], axis=1)).all()

    encoder.set_params(posterior__n_mixture=1)
    value, error = estimated_bound(encoder, X, n_samples=40)
    assert (np.abs(value - first) < 5 * error + 1e-3).all()
    encoder.set_params(posterior__n_mixture=2)
    value, error = estimated_bound(encoder, X, n_samples=40)
    assert (first - 5 * error < value).all() and (value < last + 5 * error).all()
    encoder.set_params(posterior__n_mixture=50)
    value, error = estimated_bound(encoder, X, n_samples=40)
    assert (np.abs(value - last) < 5 * error + (last - first) / 20).all()


# Encoding and decoding


@each("kind", ["auto", "values", "unit", "frequency", "presence"])
@each("normalize, posterior", zip([False, True], POSTERIORS.values(), strict=True))
def test_codes_are_of_the_rows_that_the_network_was_trained_on(
    kind, normalize, posterior
):
    X = np.vstack([COUNTS * np.float32(0.3), np.zeros((1, N_FEATURES))])
    encoder = make(
        encoder_input=kind, posterior=posterior, hidden_layer_sizes=(6, 5)
    ).set_params(normalize=normalize)
    encoder.fit(X)
    module, batch = encoder._training_batch(X)
    with torch.no_grad():
        logits = module.eval()(batch.X)[:, :N_BITS].numpy()
    found = encoder.decision_function(X)
    np.testing.assert_allclose(found, logits, atol=1e-5)
    np.testing.assert_array_equal(encoder.transform(X), found > 0)
    np.testing.assert_allclose(
        found, encoder.decision_function(sparse.csr_array(X)), atol=1e-5
    )


@each("hidden", [(), (5, 4)])
@each("decoder", DECODERS)
def test_inverse_transform_is_the_decoder_by_hand(decoder, hidden):
    X = DATA[decoder]
    encoder = make(decoder=decoder, decoder_hidden_layer_sizes=hidden).fit(X)
    module = encoder.net_.module_
    values = STATES.astype(float)
    for i, (coef, intercept) in enumerate(
        zip(module.decoder.coefs, module.decoder.intercepts, strict=True)
    ):
        values = np.maximum(values, 0) if i else values
        values = values @ coef.detach().numpy() + intercept.detach().numpy()
    decoded = encoder.inverse_transform(STATES)
    assert decoded.dtype == np.float32
    if decoder == "multinomial":
        np.testing.assert_allclose(decoded, softmax(values, axis=1), rtol=1e-4)
        np.testing.assert_allclose(decoded.sum(axis=1), 1, rtol=1e-5)
    elif decoder == "bernoulli":
        np.testing.assert_allclose(decoded, expit(values), rtol=1e-4)
    else:
        expected = encoder.mean_ + encoder.scale_ * values
        np.testing.assert_allclose(decoded, expected, atol=1e-4)
    with pytest.raises(ValueError, match="2 .*3"):
        encoder.inverse_transform(STATES[:, :2])


# Parameters


# Each is made alone, but for what lets it matter.
ALONE = [
    *({"n_bits": 4}, {"hidden_layer_sizes": (7,)}, {"hidden_layer_sizes": ()}),
    *({"decoder": "bernoulli"}, {"decoder": "gaussian"}, {"posterior": "correlated"}),
    *({"encoder_input": "frequency"}, {"encoder_input": "presence"}),
    *({"decoder_hidden_layer_sizes": None}, {"gradient": "zgr"}, {"noise": "uniform"}),
    *({"noise": Logistic(scale=2)}, {"kl_weight": 1.0}, {"dropout": 0.5}, ONE_MORE),
    *({"correction": "arm"}, {"normalize": True}, {"lr": 0.02}, {"batch_size": 7}),
    *({"lr_schedule": "cosine"}, {"max_epochs": 2}, {"optimizer": "sgd"}),
    {"callbacks": [LRScheduler(policy="StepLR", step_size=1)]},
    *({"validation_fraction": 0.2}, {"random_state": 1}),
]
CHANGES = [
    *((change, {}) for change in ALONE),
    ({"encoder_input": "values"}, {"encoder_input": "unit"}),
    *(
        ({f"posterior__{name}": value}, CORRELATED)
        for name, value in {"rank": 3, "n_mixture": 3, "scale": 0.3}.items()
    ),
    ({"gradient": ARM(n_samples=3)}, {"gradient": "arm"}),
    ({"kl_weight": LinearSchedule(0.0, 1.0, n_steps=2)}, {"kl_weight": 1.0}),
    *(
        ({f"correction__{name}": value}, ONE_MORE)
        for name, value in {"n_epochs": 2, "gradient": "zgr", "n_samples": 2}.items()
    ),
]


def changed_by(*changes):
    encoder = clone(make())
    for change in changes:
        encoder = clone(encoder.set_params(**change))
    return encoder


@each("change, base", CHANGES)
def test_every_parameter_changes_the_result(change, base):
    X = DATA["bernoulli"] if change.get("decoder") == "bernoulli" else COUNTS
    plain, changed = (changed_by(base, options).fit(X) for options in ({}, change))
    assert not np.array_equal(weights(plain), weights(changed))


def test_every_parameter_is_among_the_changes():
    no_say = {"device", "verbose"}
    changed = {name for change, _ in CHANGES for name in change}
    nested = changed_by(CORRELATED, ONE_MORE).get_params()
    assert changed | no_say == set(nested)


@each(
    "name, value, other",
    [
        ("posterior", CorrelatedPosterior(rank=4, scale=0.5), CorrelatedPosterior(4)),
        ("correction", Correction("disarm"), "disarm"),
        ("kl_weight", LinearSchedule(0.0, 0.4, n_steps=0), 0.4),
        ("kl_weight", lambda step: 0.4, 0.4),
        ("hidden_layer_sizes", [6], np.array([6])),
        ("encoder_input", "auto", "unit"),
    ],
)
def test_other_ways_to_say_the_same_change_nothing(name, value, other):
    found = [weights(make(**{name: said}).fit(COUNTS)) for said in (value, other)]
    np.testing.assert_array_equal(*found)


@each("name", sorted(GRADIENTS))
def test_every_gradient_estimator_trains(name):
    gradient = GRADIENTS[name]()
    options = CORRELATED | {"max_epochs": 2}
    by_name = make(gradient=name, **options).fit(COUNTS)
    given = make(gradient=gradient, **options).fit(COUNTS)
    assert np.isfinite(weights(by_name)).all()
    np.testing.assert_array_equal(weights(by_name), weights(given))
    # The state of an estimator is not written into the parameter.
    assert not [key for key in vars(gradient) if key.endswith("_")]


def test_row_baselines_are_of_the_rows_of_the_data():
    gradient = Reinforce(baseline="row", decay=1.0)
    for split, n_seen in ((None, 60), (0.25, 45)):
        encoder = make(gradient=gradient, max_epochs=4, validation_fraction=split).fit(
            COUNTS
        )
        known = encoder.net_.module_.gradient
        # Without decay the weight of a row counts its visits.
        seen = known.weights_[known.weights_ > 0]
        assert len(seen) == n_seen and (seen == 4).all()
        mean = known.totals_[known.weights_ > 0].sum() / (4 * n_seen)
        losses = [record["train_loss"] for record in encoder.history_]
        assert mean.item() == pytest.approx(np.mean(losses), rel=1e-4)


# Schedules


def test_annealing_reaches_its_end_by_steps():
    schedule = LinearSchedule(0.0, 0.7, n_steps=5)
    encoder = make(
        kl_weight=schedule, batch_size=16, validation_fraction=0.2, max_epochs=2
    )
    module = encoder.fit(COUNTS).net_.module_
    assert encoder.n_steps_ == 2 * 3  # of 48 rows; validation does not count
    assert schedule(module.n_steps) == 0.7
    early = make(kl_weight=schedule, batch_size=16, max_epochs=1).fit(COUNTS)
    assert schedule(early.net_.module_.n_steps) == pytest.approx(0.7 * 4 / 5)


# The quadratic correction and the correction phase


@each("parameter", ["gradient", "correction"])
@each(
    "options",
    [
        {"decoder": "bernoulli"},
        {"decoder": "gaussian", "decoder_hidden_layer_sizes": (4,)},
        {"decoder": "gaussian", "posterior": "correlated"},
    ],
)
def test_quadratic_correction_is_for_quadratic_losses(parameter, options):
    gradient = StraightThrough(debias="quadratic")
    given = gradient if parameter == "gradient" else Correction(gradient)
    encoder = make(**options, **{parameter: given})
    with pytest.raises(ValueError, match=f"{parameter}=.*decoder='gaussian'"):
        encoder.fit(DATA["bernoulli"])


@each("validation_fraction", [None, 0.2])
def test_correction_adds_epochs_with_its_own_estimator(validation_fraction):
    encoder = make(
        correction=Correction(n_samples=4, n_epochs=2),
        validation_fraction=validation_fraction,
        callbacks=[LRScheduler("StepLR", step_size=9)],  # goes on in the second phase
    ).fit(COUNTS)
    assert [record["epoch"] for record in encoder.history_] == [1, 2, 3, 4, 5]
    assert encoder.n_iter_ == 5
    gradient = encoder.net_.module_.gradient
    assert type(gradient) is ARM and gradient.n_samples == 4
    # Before it the training is that without a correction.
    plain = make(validation_fraction=validation_fraction).fit(COUNTS)
    losses = [
        [record["train_loss"] for record in other.history_[:3]]
        for other in (encoder, plain)
    ]
    assert losses[0] == losses[1]


class StepSizes(Callback):
    """Notes the size of each epoch's steps."""

    sizes = []

    def on_batch_begin(self, net, training=False, **kwargs):
        if training:
            self.sizes.append(net.optimizer_.param_groups[0]["lr"])


@each("schedule", ["cosine", "inverse_sqrt"])
def test_the_step_size_of_a_correction_starts_afresh(schedule):
    """In the paper it is fixed in both phases; here both have the same curve."""
    found = []
    for correction in (None, Correction(n_epochs=4)):
        StepSizes.sizes.clear()
        make(
            correction=correction,
            max_epochs=4,
            lr_schedule=schedule,
            callbacks=[StepSizes()],
        ).fit(COUNTS)
        found.append([*StepSizes.sizes])
    assert found[1] == 2 * found[0]


def test_a_correction_starts_with_a_fresh_optimizer():
    """One that forgets its moments."""
    encoder = make(**ONE_MORE).fit(COUNTS)
    states = encoder.net_.optimizer_.state.values()
    assert {int(state["step"]) for state in states} == {-(-len(COUNTS) // 32)}


# Wrong input


@each("make_rows", [np.asarray, sparse.csr_array])
def test_data_that_the_decoder_cannot_explain(make_rows):
    negative, large = (COUNTS.copy() for _ in range(2))
    negative[3, 2] = -0.5
    for decoder in ("multinomial", "bernoulli"):
        with pytest.raises(ValueError, match=f"'{decoder}'.*-0.5.*'gaussian'"):
            make(decoder=decoder).fit(make_rows(negative))
    with pytest.raises(ValueError, match="'bernoulli'"):
        make(decoder="bernoulli").fit(make_rows(large))
    make(decoder="gaussian").fit(make_rows(negative))
    encoder = make().fit(make_rows(COUNTS))
    for method in (encoder.transform, encoder.bound, encoder.partial_fit):
        with pytest.raises(ValueError, match="-0.5"):
            method(make_rows(negative))


@each(
    "options, message",
    [
        ({"gradient": "foo"}, "gradient=.* arm, .*zgr"),
        ({"gradient": StraightThrough}, "gradient=.* arm, .*zgr"),
        ({"hidden_layer_sizes": (4, -1)}, "hidden_layer_sizes"),
        ({"hidden_layer_sizes": (2.5,)}, "hidden_layer_sizes"),
        ({"decoder_hidden_layer_sizes": (0,)}, "decoder_hidden_layer_sizes"),
        ({"noise": "foo"}, "noise='foo'.*logistic"),
        ({"decoder": "poisson"}, "'decoder'"),
        ({"posterior": CorrelatedPosterior(rank=0)}, "'rank'"),
        ({"kl_weight": -1.0}, "'kl_weight'"),
        ({"dropout": 1.0}, "'dropout'"),
        ({"correction": "foo"}, "correction='foo'.*arm, .*zgr"),
        ({"correction": Correction(n_epochs=0)}, "'n_epochs'"),
        ({"gradient": "exact", "n_bits": 17}, "16"),
        ({"gradient": ARM(n_samples=0)}, "'n_samples'"),
        ({"encoder_input": "presence", "decoder": "gaussian"}, "encoder_input"),
    ],
)
def test_wrong_parameters_are_named(options, message):
    with pytest.raises(ValueError, match=message):
        make(**options).fit(COUNTS)


@pytest.mark.filterwarnings("ignore:.*bits are the same")
@each_decoder
@each_posterior
def test_rows_without_words(decoder, posterior):
    X = np.zeros((40, 5), dtype=np.float32)
    X[0, 0] = 1
    for rows in (X, sparse.csr_array(X)):
        encoder = make(decoder=decoder, posterior=posterior, kl_weight=0.5)
        codes = encoder.fit(rows).transform(rows[1:])
        assert (codes == codes[0]).all()
        assert np.isfinite(encoder.bound(rows)).all()


# In the company of others


@each_decoder
@each_posterior
def test_sparse_data_are_never_dense_as_a_whole(decoder, posterior, monkeypatch):
    X = sparse.csr_array(np.maximum(DATA[decoder], 0))
    densified = []

    def spy(owner, name):
        original = getattr(owner, name)

        def record(self, *args, **kwargs):
            densified.append(self.shape[0])
            return original(self, *args, **kwargs)

        monkeypatch.setattr(owner, name, record)

    for owner in (sparse.csr_array, sparse.csr_matrix):
        spy(owner, "toarray")
        spy(owner, "todense")
    spy(torch.Tensor, "to_dense")
    encoder = make(decoder=decoder, posterior=posterior, batch_size=16, **ONE_MORE).fit(
        X
    )
    encoder.partial_fit(X)
    encoder.transform(X)
    if decoder == "gaussian":
        assert max(densified) <= 16
    else:
        encoder.bound(X)
        assert not densified


def test_words_that_are_stored_twice_are_one_word():
    once = sparse.csr_array(COUNTS)
    halves = np.repeat(once.data / 2, 2), np.repeat(once.indices, 2), 2 * once.indptr
    twice = sparse.csr_array(halves, shape=once.shape)
    assert twice.nnz == 2 * once.nnz
    found = [make(encoder_input="presence").fit(X) for X in (once, twice)]
    np.testing.assert_array_equal(*map(weights, found))


# Repeating, saving and going on


def test_nothing_of_another_fit_is_saved(tmp_path):
    encoder = make(**CORRELATED).fit(COUNTS).set_params(posterior="independent")
    encoder.fit(COUNTS).save(tmp_path / "encoder")
    assert load(tmp_path / "encoder").covariance_coef_ is None


def test_a_stream_has_the_gradient_of_the_correction_loaded_or_not(tmp_path):
    encoder = make(correction="disarm").partial_fit(COUNTS)
    encoder.save(tmp_path / "encoder")
    loaded = load(tmp_path / "encoder").partial_fit(COUNTS)
    for stream in (encoder, loaded):
        assert type(stream.net_.module_.gradient) is DisARM


def test_a_loaded_encoder_goes_on_from_its_steps_and_its_phase(tmp_path):
    encoder = make(**CORRELATED, correction=Correction("disarm", n_epochs=1))
    encoder.fit(COUNTS).save(tmp_path / "encoder")
    loaded = load(tmp_path / "encoder").partial_fit(COUNTS)
    module = loaded.net_.module_
    assert module.n_steps == loaded.n_steps_ == encoder.n_steps_ * 5 / 4
    assert type(module.gradient) is DisARM and loaded.n_iter_ == 5
    # The length of the codes is that of the fit.
    for changed in (encoder, load(tmp_path / "encoder")):
        changed.set_params(n_bits=N_BITS + 1)
        with pytest.raises(ValueError, match=f"n_bits={N_BITS + 1}.*{N_BITS}"):
            changed.partial_fit(COUNTS)
        assert changed.bound(COUNTS[:2]).shape == (2,)
