"""The contract of losses of supervised hashing, one test a promise."""

import copy
import inspect
import pickle

import pytest
import torch
from cases import each
from losses.fits import (
    N_BITS,
    N_ROWS,
    classes,
    indicator,
    linear_encoder,
    make_objective,
    randn,
    several_labels,
    value,
)
from page_examples import page_classes
from pretend import assert_as_on_cpu
from sklearn.base import clone

import skhash.losses as losses

# With small margins, so that both sides of each kink are met.
ALL = [
    losses.CrossEntropyLoss(),
    losses.CSQLoss(quantization_weight=0.5),
    losses.DHNLoss(quantization_weight=0.5),
    losses.DSDHLoss(quantization_weight=0.5),
    losses.DSHLoss(margin=9.0, quantization_weight=0.5),
    losses.DTSHLoss(margin=1.0, quantization_weight=0.5),
    losses.DualHashLoss(penalty=0.5, warmup_epochs=0),
    losses.DualHashLoss(losses.DualSolver(whole=True), penalty=0.5, warmup_epochs=0),
    losses.DualHashLoss("subgradient", w_weight=0.5, warmup_epochs=2),
    losses.HashNetLoss(stage_epochs=1),
    losses.MDSHCLoss(quantization_weight=0.5, pair_epoch=2),
    losses.OrthoHashLoss(),
    losses.OrthoHashLoss(margin_type="arc"),
    losses.SupervisedContrastiveLoss(),
    *(example() for example in page_classes(losses.SupervisedLoss)),
]
# In a later epoch, all terms have started.
EPOCHS = [0, 3]

# Another value of each parameter than the default. Each changes the network's gradient,
# so each term of the loss does.
OTHERS = {
    losses.CrossEntropyLoss: {},
    losses.CSQLoss: {"centers": "bernoulli", "quantization_weight": 0.0},
    losses.DHNLoss: {"quantization_weight": 0.0, "logit_scale": 1.0},
    losses.DSDHLoss: {
        "quantization_weight": 0.0,
        "classification_weight": 0.0,
        "ridge": 0.01,
        "n_sweeps": 1,
        "logit_scale": 1.0,
    },
    losses.DSHLoss: {"margin": 3.0, "quantization_weight": 0.0},
    losses.DTSHLoss: {"margin": 0.0, "quantization_weight": 0.0},
    losses.DualHashLoss: {
        "solver": "subgradient",
        "w_weight": 0.02,
        "penalty": 0.1,
        "warmup_epochs": 20,
        "logit_scale": 1.0,
        "pair_weights": None,
    },
    losses.HashNetLoss: {"logit_scale": 1.0, "stage_epochs": 1},
    losses.MDSHCLoss: {
        "centers": "bernoulli",
        "pair_weight": 0.0,
        "pair_epoch": 0,
        "momentum": 0.0,
        "quantization_weight": 0.0,
    },
    losses.OrthoHashLoss: {
        "centers": "bernoulli",
        "margin": 0.0,
        "margin_type": "arc",
        "scale": 1.0,
    },
    losses.SupervisedContrastiveLoss: {"temperature": 2.0},
}

every_loss = each("loss", ALL)
every_epoch = each("epoch", EPOCHS)
every_labelling = each("make_labels", [classes, several_labels])


def started(loss, labels, epoch, encoder=None):
    """Return an objective that met all rows once, at the start of an epoch.

    The encoder, if any, moved since the fit began, as training moves it.
    """
    objective = make_objective(loss, labels, encoder=encoder)
    if encoder is not None:
        encoder.weight.data = randn(*encoder.weight.shape, seed=13)
    objective.start_epoch(0)
    value(objective, randn(N_ROWS, N_BITS, seed=2), labels)
    objective.start_epoch(epoch)
    return objective


@every_loss
@every_epoch
@every_labelling
def test_values_and_gradients_are_finite_scalars(loss, epoch, make_labels):
    labels = make_labels()
    for scale in (1e-3, 1.0, 1e3):
        for dtype in (torch.float32, torch.float64):
            objective = started(loss, labels, epoch, linear_encoder()).to(dtype)
            objective.eval()  # an average cannot follow an encoder of another type
            logits = (scale * randn(N_ROWS, N_BITS)).to(dtype).requires_grad_()
            found = value(objective, logits, labels)
            assert found.shape == () and found.dtype == dtype and found.isfinite()
            (gradient,) = torch.autograd.grad(found, logits)
            assert gradient.dtype == dtype and gradient.isfinite().all()
            assert gradient.any() or scale == 1e3  # where tanh has no slope left


@each("loss", [x for x in ALL if not isinstance(x, losses.SupervisedContrastiveLoss)])
@every_epoch
@every_labelling
def test_gradients_are_those_of_finite_differences(loss, epoch, make_labels):
    labels = make_labels()
    objective = started(loss, labels, epoch)
    objective.frozen = True  # so that each call finds the same
    logits = randn(N_ROWS, N_BITS).requires_grad_()
    trained = [part for part in objective.parameters() if part.requires_grad]

    def function(logits, *trained):
        return value(objective, logits, labels)

    assert torch.autograd.gradcheck(function, (logits, *trained), fast_mode=True)


@every_loss
@every_epoch
@every_labelling
def test_the_order_of_a_batch_does_not_matter(loss, epoch, make_labels):
    labels, logits = make_labels(), randn(N_ROWS, N_BITS)
    order = torch.randperm(N_ROWS, generator=torch.Generator().manual_seed(0))
    X = randn(N_ROWS, 4, seed=9)
    found = [
        value(started(loss, labels, epoch), logits[rows], labels[rows], rows, X[rows])
        for rows in (torch.arange(N_ROWS), order)
    ]
    torch.testing.assert_close(*found)


DEGENERATE = {
    "one row": [[0]],
    "no positive pair": [[0], [1], [2]],
    "no negative pair": [[1], [1], [1]],
    "no label at all": [[0, 0, 0], [0, 0, 0]],
    "every label": [[1, 1, 1], [1, 1, 1]],
}


@every_loss
@every_epoch
@each("labels", DEGENERATE.values())
@each("scale", [0.0, 1.0])
def test_degenerate_batches_are_finite(loss, epoch, labels, scale):
    batch = torch.tensor(labels)
    labels = classes() if batch.shape[1] == 1 else several_labels()
    objective = started(loss, labels, epoch)
    logits = (scale * randn(len(batch), N_BITS)).requires_grad_()
    found = value(objective, logits, batch)
    assert found.isfinite()
    (gradient,) = torch.autograd.grad(found, logits)
    assert gradient.isfinite().all()


@each("loss", [x for x in ALL if not isinstance(x, losses.CrossEntropyLoss)])
@every_epoch
def test_one_label_a_row_is_a_class(loss, epoch):
    """All formulas but that of the cross-entropy are of who shares a label."""
    logits, labels = randn(N_ROWS, N_BITS), classes()
    found = [
        value(started(loss, y, epoch), logits, y) for y in (labels, indicator(labels))
    ]
    torch.testing.assert_close(*found)


def network_gradient(loss, labels, epoch):
    """Return the gradient in the weights of an encoder, in two batches."""
    encoder, X = linear_encoder(), randn(N_ROWS, 4)
    objective = started(loss, labels, epoch, encoder)
    for _ in range(2):
        value(objective, encoder(X), labels, X=X).backward()
    return encoder.weight.grad


@pytest.mark.parametrize(
    "loss, changed",
    [
        pytest.param(loss(), {name: other}, id=f"{loss.__name__}-{name}")
        for loss, others in OTHERS.items()
        for name, other in others.items()
    ],
)
def test_every_parameter_and_every_term_changes_the_gradient(loss, changed):
    """In an epoch in which every loss has all its terms, but for a `pair_epoch`."""
    epoch = 8 if "pair_epoch" in changed else 9
    before, after = (
        network_gradient(loss.set_params(**params), classes(), epoch)
        for params in ({}, changed)
    )
    assert not torch.allclose(before, after, rtol=1e-6, atol=0)


def test_no_parameter_is_left_out():
    tested = {type(loss) for loss in ALL} - set(page_classes())
    assert OTHERS.keys() == tested == set(losses.LOSSES.values()), (
        "add it to ALL and OTHERS"
    )
    for loss, others in OTHERS.items():
        assert others.keys() == loss().get_params().keys()


@every_loss
def test_the_same_generator_makes_the_same_objective(loss):
    labels = several_labels()
    state = torch.get_rng_state()
    parts, again = (make_objective(loss, labels).state_dict() for _ in range(2))
    assert parts.keys() == again.keys()
    assert all(torch.equal(parts[name], again[name]) for name in parts)
    value(make_objective(loss, labels), randn(N_ROWS, N_BITS), labels)
    assert torch.equal(state, torch.get_rng_state())


@every_loss
def test_copies_of_an_objective_share_nothing(loss):
    """As a deep copy of the network that holds it does."""
    labels, logits = classes(), randn(N_ROWS, N_BITS).requires_grad_()
    network = torch.nn.Module()
    network.encoder = linear_encoder()
    network.objective = make_objective(loss, labels, encoder=network.encoder)
    copied = copy.deepcopy(network)
    before = {name: part.clone() for name, part in network.state_dict().items()}
    copied.encoder.weight.data.zero_()
    value(copied.objective, logits, labels).backward()
    copied.objective.start_epoch(3)
    for name, part in network.state_dict().items():
        assert torch.equal(part, before[name]), name
    reread = pickle.loads(pickle.dumps(network.objective))
    torch.testing.assert_close(
        value(reread, logits, labels), value(network.objective, logits, labels)
    )


@every_loss
@every_epoch
def test_a_frozen_objective_remembers_nothing(loss, epoch):
    labels, encoder = several_labels(), linear_encoder()
    objective = started(loss, labels, epoch, encoder)
    before = copy.deepcopy(dict(objective.named_buffers()))
    follower = copy.deepcopy(objective.state_dict())
    objective.frozen = True
    X = randn(N_ROWS, 4)
    first = value(objective, encoder(X), labels, X=X)
    assert torch.equal(value(objective, encoder(X), labels, X=X), first)
    for name, part in objective.named_buffers():
        assert torch.equal(part, before[name]), name
    for name, part in objective.state_dict().items():
        assert torch.equal(part, follower[name]), name


def test_every_class_is_tested_and_has_a_name():
    found = {
        cls
        for cls in map(vars(losses).get, losses.__all__)
        if inspect.isclass(cls)
        and issubclass(cls, losses.SupervisedLoss)
        and cls is not losses.SupervisedLoss
    }
    assert found == set(losses.LOSSES.values())


@each("loss", ["softmax", None, losses.DHNLoss, 3, ["dhn"]])
def test_unknown_losses_are_refused_with_what_there_is(loss):
    with pytest.raises(ValueError, match="'contrastive', .*, 'orthohash'"):
        losses.make_loss(loss)


@each(
    "loss, name", [(loss(), name) for loss, others in OTHERS.items() for name in others]
)
def test_parameters_out_of_range_are_named(loss, name):
    message = f"'{name}' parameter of {type(loss).__name__}"
    with pytest.raises(ValueError, match=message):
        losses.make_loss(loss.set_params(**{name: -1.0}))


@each("solver", [losses.DualSolver, losses.ProxSolver])
def test_solvers_within_a_loss_are_set_cloned_and_checked(solver):
    loss = losses.DualHashLoss(solver()).set_params(solver__u_step=0.5)
    copied = clone(loss)
    assert copied.solver is not loss.solver and copied.solver.u_step == 0.5
    loss = losses.make_loss(loss.set_params(solver__u_step=-1.0))
    message = f"'u_step' parameter of {solver.__name__}"
    with pytest.raises(ValueError, match=message):
        make_objective(loss, classes())


def test_a_loss_has_to_say_what_it_is():
    class Empty(losses.SupervisedLoss):
        pass

    with pytest.raises(NotImplementedError, match="Empty.*of_batch"):
        value(make_objective(Empty(), classes()), randn(N_ROWS, N_BITS), classes())


@every_loss
def test_devices(loss, device):
    def values(device):
        encoder = linear_encoder()
        objective = make_objective(loss, classes(), encoder=encoder).to(device)
        encoder.to(device)
        X, rows = randn(N_ROWS, 4).to(device), torch.arange(N_ROWS).to(device)
        logits = randn(N_ROWS, N_BITS).to(device).requires_grad_()
        for epoch in range(4):
            objective.start_epoch(epoch)
            found = objective(logits, classes().to(device), rows, X)
            assert found.device == logits.device
            yield found.detach()
            yield torch.autograd.grad(found, logits)[0]

    assert_as_on_cpu(values, device)
