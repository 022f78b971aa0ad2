"""Models to measure gradients of, each as a module with a loss.

A problem has ``gradient(estimator, batch, seed)``, which returns one drawn gradient as
a flat tensor, ``groups``, which names slices of it, ``widths``, the numbers of units of
its layers, ``is_network``, whether its estimators are those of a network, and
``n_rows``, ``batch_rows`` and ``n_batches``.
"""

import copy
import re
from contextlib import contextmanager
from functools import partial

import numpy as np
import torch
from torch import nn

from skhash.gradients._base import GradientEstimator
from skhash.gradients._network import LayerwiseNetwork, NetworkGradient
from skhash.gradients._straight_through import StraightThrough
from skhash.utils.arrays import as_array, contiguous_rows


def make_problem(model, X, y, loss, batch_size, device):
    """Return the problem of a model, or raise if it is none of those that work."""
    if hasattr(model, "_training_batch"):
        return _fitted_problem(model, X, y, loss, batch_size, device)
    X = _floating(X)
    if X.ndim < 2 or not len(X):
        raise ValueError(
            f"X has the shape {tuple(X.shape)}; give two axes, or more for a model "
            "that reads them, and at least one row."
        )
    if loss is None:
        if isinstance(model, nn.Module) or not callable(model):
            raise TypeError(
                f"model={model!r} is neither a function of bits nor an encoder that "
                "was trained with drawn bits; with a torch module pass loss= as well."
            )
        if y is not None or batch_size not in (None, len(X)):
            raise ValueError(
                "A function of bits sees all rows at once and no targets: leave "
                f"batch_size={batch_size!r} and y out, or pass a module and loss=."
            )
        model, loss = _Logits(X), model
    elif not isinstance(model, nn.Module):
        raise TypeError(
            f"model={model!r} is no torch module, and loss= belongs to one: pass a "
            "module that maps rows to logits, or leave loss= out."
        )
    elif not any(parameter.requires_grad for parameter in model.parameters()):
        raise ValueError(
            f"No parameter of model={model!r} has requires_grad, so there is no "
            "gradient to measure."
        )
    if y is not None and len(y) != len(X):
        raise ValueError(f"y has {len(y)} rows, but X has {len(X)}.")
    return _own_problem(model, X, y, loss, batch_size, device)


def _fitted_problem(model, X, y, loss, batch_size, device):
    """Take the module that an encoder or a classifier was trained with."""
    if loss is not None:
        raise ValueError(
            f"A fitted {type(model).__name__} has a loss of its own; leave loss= out."
        )
    module, batch = model._training_batch(X, y)
    gradient = getattr(module, "gradient", None)
    if not isinstance(gradient, GradientEstimator | NetworkGradient):
        raise TypeError(
            f"This {type(model).__name__} was trained with gradient={gradient!r}, "
            "which is no estimator of skhash.gradients: there is nothing to exchange."
        )
    # Not every generator can be copied, and this one is replaced at each call.
    own = getattr(module, "generator", None)
    module = copy.deepcopy(module, {} if own is None else {id(own): torch.Generator()})
    return Problem(module, batch, batch_size, device)


def _own_problem(model, X, y, loss, batch_size, device):
    from skhash.training._batches import Batch

    module = _OwnModule(copy.deepcopy(model), loss)
    X = X.to(next(model.parameters()).dtype)
    if y is not None and not isinstance(y, torch.Tensor):
        y = torch.as_tensor(np.array(as_array(y)))
    y = y.to(X.dtype) if y is not None and y.is_floating_point() else y
    return Problem(module, Batch.of(X, labels=y), batch_size, device)


def _floating(X):
    if not isinstance(X, torch.Tensor):
        X = torch.as_tensor(contiguous_rows(as_array(X)))
    X = X.detach()
    return X if X.is_floating_point() else X.to(torch.get_default_dtype())


class _Logits(nn.Module):
    """The model behind a function of bits: its logits, whatever the rows."""

    def __init__(self, logits):
        super().__init__()
        self.logits = nn.Parameter(logits.clone())

    def forward(self, X):
        return self.logits


class _OwnModule(nn.Module):
    """A user's model and loss, as the modules of the library's encoders are.

    Parameters
    ----------
    model : torch module
        Maps rows to logits, or is a network of binary units.
    function : callable
        Maps units, or outputs of the network, and targets if there are any to losses.
    """

    def __init__(self, model, function):
        super().__init__()
        self.model, self.generator = model, None
        # A module would be registered: the parameters of the model are what counts.
        self.function = partial(function)
        self.is_network = hasattr(model, "realize")
        st = StraightThrough()
        self.gradient = LayerwiseNetwork(st) if self.is_network else st

    def forward(self, X):
        return X if self.is_network else self.model(X)

    def loss(self, outputs, batch):
        def losses_of(values):
            targets = () if batch.labels is None else (batch.labels,)
            losses = self.function(values, *targets)
            if losses.shape != values.shape[:-1]:
                raise ValueError(
                    f"The loss has the shape {tuple(losses.shape)} for values of shape "
                    f"{tuple(values.shape)}; it has to be one number a row, shape "
                    f"{tuple(values.shape[:-1])}: reduce the last axis alone."
                )
            return losses

        known = {"generator": self.generator, "rows": batch.rows}
        if self.is_network:
            losses = self.gradient.network_surrogate(
                losses_of, self.model, batch.X, **known
            )
        else:
            losses = self.gradient.surrogate(losses_of, outputs, **known)
        return losses.mean()


class Problem:
    """The gradient of a module's loss in all of its parameters, batch by batch.

    Parameters
    ----------
    module : torch module
        With a gradient estimator ``gradient``, ``forward(X)`` and
        ``loss(outputs, batch)``; it belongs to the problem.
    batch : Batch
        All rows.
    batch_size : int or None
    device : torch.device
    """

    def __init__(self, module, batch, batch_size, device):
        self.module, self.device = module.to(device), device
        named = {
            name: parameter
            for name, parameter in self.module.named_parameters()
            if parameter.requires_grad
        }
        self.parameters = list(named.values())
        self.is_network = isinstance(self.module.gradient, NetworkGradient)
        self.groups = _slices(named, _layer_of if self.is_network else _part_of)
        self.batch = batch.to(device, self.parameters[0].dtype)
        self.n_rows = len(batch)
        self.batch_rows = min(batch_size or self.n_rows, self.n_rows)
        self.n_batches = -(-self.n_rows // self.batch_rows)
        # Changes of a call are put back before the next: all see the same model.
        self.attributes = dict(vars(self.module))
        self.buffers = [buffer.clone() for buffer in self.module.buffers()]
        probe = _Probe()
        self.gradient(LayerwiseNetwork(probe) if self.is_network else probe, 0, 0)
        self.widths = getattr(probe, "widths", [])

    def gradient(self, estimator, batch, seed):
        rows = slice(batch * self.batch_rows, (batch + 1) * self.batch_rows)
        batch = self.batch.take(rows)
        vars(self.module).update(self.attributes)
        for buffer, value in zip(self.module.buffers(), self.buffers, strict=True):
            buffer.copy_(value)
        self.module.gradient = estimator
        self.module.generator = seeded(seed, self.device)
        loss = self.module.loss(self.module(batch.X), batch)
        gradients = torch.autograd.grad(loss, self.parameters, allow_unused=True)
        return torch.cat(
            [
                (torch.zeros_like(values) if part is None else part).flatten()
                for values, part in zip(self.parameters, gradients, strict=True)
            ]
        )


class _Probe(StraightThrough):
    """Sees how many units a module has, layer by layer."""

    def sample(self, logits, generator=None, **options):
        self.widths = [*getattr(self, "widths", []), logits.shape[-1]]
        return super().sample(logits, generator, **options)


@contextmanager
def own_random(device):
    """Leave torch's global generators as they were, whatever the block draws."""
    devices = [device] if device.type == "cuda" else []
    with torch.random.fork_rng(devices), torch.enable_grad():
        yield


def seeded(seed, device):
    """Return a generator of this seed.

    The global ones get it too, for the model's own noise such as dropout. Seeding them
    with `torch.manual_seed` would take longer than a small gradient.
    """
    torch.default_generator.manual_seed(seed)
    if device.type == "cuda":
        torch.cuda.manual_seed(seed)
    return torch.Generator(device=device).manual_seed(seed)


def _part_of(name):
    """Return the first component of the name of a parameter in the user's model."""
    return name.removeprefix("model.").split(".")[0]


def _layer_of(name):
    """Return the layer of a network that a parameter is in: "layers.0" or "head"."""
    found = re.search(r"layers\.\d+|head", name)
    return found[0] if found else _part_of(name)


def _slices(named, group_of):
    """Return the slice of each group of parameters, and of all if there are several."""
    sizes = {}
    for name, parameter in named.items():
        group = group_of(name)
        sizes[group] = sizes.get(group, 0) + parameter.numel()
    ends = np.cumsum(list(sizes.values())).tolist()
    slices = dict(zip(sizes, map(slice, [0, *ends[:-1]], ends), strict=True))
    return slices if len(slices) == 1 else {"all": slice(0, ends[-1])} | slices
