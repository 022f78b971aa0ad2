"""A small fit in float64 for the losses of supervised hashing to start from."""

import torch

from skhash.losses import make_loss
from skhash.losses._objective import Training

N_ROWS, N_BITS, N_CLASSES, N_FEATURES = 14, 6, 3, 4


def randn(*shape, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(shape, generator=generator, dtype=torch.float64)


def classes(n_rows=N_ROWS, n_classes=N_CLASSES):
    """Every class in turn, so that none is empty."""
    return (torch.arange(n_rows) % n_classes)[:, None]


def several_labels(n_rows=N_ROWS, n_classes=N_CLASSES):
    """Rows of 0 to `n_classes` labels; the first row has none."""
    generator = torch.Generator().manual_seed(3)
    labels = torch.randint(0, 2, (n_rows, n_classes), generator=generator)
    labels[0] = 0
    return labels


def indicator(labels, n_classes=N_CLASSES):
    """The same classes, as one column each."""
    return torch.nn.functional.one_hot(labels[:, 0], n_classes)


def linear_encoder(n_bits=N_BITS):
    encoder = torch.nn.utils.skip_init(torch.nn.Linear, N_FEATURES, n_bits, bias=False)
    encoder.weight.data = randn(n_bits, N_FEATURES, seed=7)
    return encoder


def make_objective(loss, labels, n_bits=N_BITS, n_classes=N_CLASSES, encoder=None):
    """Return the objective of a fit, in float64."""
    training = Training(
        n_bits=n_bits,
        labels=labels,
        n_classes=n_classes,
        encoder=linear_encoder(n_bits) if encoder is None else encoder,
        generator=torch.Generator().manual_seed(5),
    )
    return make_loss(loss).objective(training).double()


def value(objective, logits, labels, rows=None, X=None):
    """Call an objective with rows in order, and data that do not matter."""
    rows = torch.arange(len(logits)) if rows is None else rows
    X = randn(len(logits), N_FEATURES, seed=9) if X is None else X
    return objective(logits, labels, rows, X)


def loss_of(loss, logits, labels, n_classes=N_CLASSES, epoch=0):
    """Return the value of a loss in one batch, which is all rows of the fit."""
    logits = torch.as_tensor(logits, dtype=torch.float64)
    objective = make_objective(loss, labels, logits.shape[1], n_classes)
    objective.start_epoch(epoch)
    return value(objective, logits, labels).item()
