"""The models that a report takes: a function of bits, or a module with a loss.

A problem has ``gradient(estimator, batch, seed)``, which returns one drawn gradient as
a flat tensor, ``groups``, which names slices of it, ``widths``, the numbers of units of
its layers, ``is_network``, whether its estimators are those of a network, and
``n_rows``, ``batch_rows`` and ``n_batches``.
"""

import copy
import re
from contextlib import contextmanager

import numpy as np
import torch

from skhash.gradients._base import UNITS, GradientEstimator
from skhash.gradients._network import LayerwiseNetwork, NetworkGradient
from skhash.gradients._straight_through import StraightThrough


def make_problem(model, X, y, batch_size, units, device):
    if hasattr(model, "_training_batch"):
        model, batch = model._training_batch(X, y)
        X, y = batch.X, batch.labels
    elif not callable(model):
        raise TypeError(
            f"model={model!r} is neither a function of bits, nor a torch module with "
            "`gradient` and `loss`, nor a fitted encoder that was trained with one."
        )
    X = X.detach() if isinstance(X, torch.Tensor) else torch.as_tensor(np.asarray(X))
    if X.ndim != 2 or not len(X):
        raise ValueError(
            f"X has the shape {tuple(X.shape)}; it takes two axes and at least one row."
        )
    if not X.is_floating_point():
        X = X.to(torch.get_default_dtype())
    if not hasattr(model, "loss"):
        if y is not None or batch_size not in (None, len(X)):
            raise ValueError(
                "A function of bits sees all rows at once and no targets: leave "
                f"batch_size={batch_size!r} and y out, or pass a module with a loss."
            )
        return FunctionProblem(model, X, UNITS if units is None else units, device)
    gradient = getattr(model, "gradient", None)
    if not isinstance(gradient, GradientEstimator | NetworkGradient):
        raise TypeError(
            f"gradient={gradient!r} of this {type(model).__name__} is no gradient "
            "estimator, so there is nothing to exchange; pass a module that holds an "
            "instance of a class of skhash.gradients."
        )
    if units is not None and not hasattr(model, "units"):
        raise ValueError(
            f"units={units!r} cannot be set: this {type(model).__name__} has none. "
            "Leave units out."
        )
    if y is not None and len(y) != len(X):
        raise ValueError(f"y has {len(y)} rows, but X has {len(X)}.")
    return ModuleProblem(model, X, y, batch_size, units, device)


class FunctionProblem:
    """The gradient, in the logits, of the mean over rows of a function of bits."""

    is_network = False

    def __init__(self, function, logits, units, device):
        self.function, self.units, self.device = function, units, device
        self.logits = logits.to(device).clone().requires_grad_()
        self.rows = torch.arange(len(logits), device=device)
        self.groups = {"logits": slice(0, logits.numel())}
        self.n_rows = self.batch_rows = len(logits)
        self.n_batches = 1
        self.widths = [logits.shape[-1]]

    def gradient(self, estimator, batch, seed):
        losses = estimator.surrogate(
            self.function,
            self.logits,
            seeded(seed, self.device),
            units=self.units,
            rows=self.rows,
        )
        (gradient,) = torch.autograd.grad(losses.mean(), self.logits)
        return gradient.flatten()


class ModuleProblem:
    """The gradient of a module's loss in all of its parameters, batch by batch."""

    def __init__(self, module, X, y, batch_size, units, device):
        from skhash.training._batches import Batch

        # Not every generator can be copied, and this one is replaced at each call.
        own = getattr(module, "generator", None)
        known = {} if own is None else {id(own): torch.Generator()}
        self.module = copy.deepcopy(module, known).to(device)
        if units is not None:
            self.module.units = units
        self.device = device
        named = {
            name: parameter
            for name, parameter in self.module.named_parameters()
            if parameter.requires_grad
        }
        self.parameters = list(named.values())
        self.is_network = isinstance(self.module.gradient, NetworkGradient)
        self.groups = _slices(named, _layer_of if self.is_network else _part_of)
        labels = None if y is None else torch.as_tensor(y)
        self.batch = Batch.of(X, labels=labels).to(device, self.parameters[0].dtype)
        self.n_rows = len(X)
        self.batch_rows = min(batch_size or len(X), len(X))
        self.n_batches = -(-len(X) // self.batch_rows)
        # What a call changes is put back before the next: all see the same model.
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
    """Return the first component of the name of a parameter."""
    return name.split(".")[0]


def _layer_of(name):
    """Return the layer of a network that a parameter is in: "layers.0" or "head"."""
    found = re.search(r"layers\.\d+|head", name)
    return found[0] if found else _part_of(name)


def _slices(named, group_of):
    """Return the slice of all, and that of each group of parameters."""
    sizes = {}
    for name, parameter in named.items():
        group = group_of(name)
        sizes[group] = sizes.get(group, 0) + parameter.numel()
    ends = np.cumsum(list(sizes.values())).tolist()
    starts = [0, *ends]
    slices = map(slice, starts, ends)
    return {"all": slice(0, ends[-1])} | dict(zip(sizes, slices, strict=True))
