"""Models to measure gradients of, each as a module with a loss: a `Problem`."""

import copy
import re
from functools import partial

import numpy as np
import torch
from torch import nn
from torch.nn.modules.dropout import _DropoutNd

from skhash.gradients._base import GradientEstimator
from skhash.gradients._network import LayerwiseNetwork, NetworkGradient
from skhash.gradients._straight_through import StraightThrough
from skhash.utils.arrays import as_array, contiguous_rows


def make_problem(model, X, y, loss, batch_size, device):
    """Return the problem of a model, or raise if it is not supported."""
    if hasattr(model, "_training_batch"):
        return _fitted_problem(model, X, y, loss, batch_size, device)
    if isinstance(model, nn.Module) == (loss is None) or not callable(model):
        raise TypeError(
            f"model={model!r} with loss={loss!r} must be a function of bits alone, a "
            "torch module and its loss, or an encoder trained with sampled bits."
        )
    if not isinstance(X, torch.Tensor):
        X = torch.as_tensor(contiguous_rows(as_array(X)))
    X = X.detach() if X.is_floating_point() else X.to(torch.get_default_dtype())
    if X.ndim < 2 or not len(X):
        raise ValueError(
            f"X has shape {tuple(X.shape)}; give at least one row, and two axes, or "
            "more for a model that takes them."
        )
    if loss is None:
        if y is not None or batch_size not in (None, len(X)):
            raise ValueError(
                "A function of bits gets all rows at once and no targets; leave out "
                f"batch_size={batch_size!r} and y, or pass a module and loss=."
            )
        model, loss = _Logits(X), model
    return _own_problem(model, X, y, loss, batch_size, device)


def _fitted_problem(model, X, y, loss, batch_size, device):
    """Return the problem of the module of a fitted encoder or classifier."""
    if loss is not None:
        raise TypeError(
            f"A fitted {type(model).__name__} has its own loss; leave out loss=."
        )
    module, batch = model._training_batch(X, y)
    gradient = getattr(module, "gradient", None)
    if not isinstance(gradient, GradientEstimator | NetworkGradient):
        raise TypeError(
            f"This {type(model).__name__} was trained with gradient={gradient!r}, "
            "which is not an estimator of skhash.gradients, so it cannot be exchanged."
        )
    # Not every generator can be copied, and this one is replaced at each call.
    generator = getattr(module, "generator", None)
    memo = {} if generator is None else {id(generator): torch.Generator()}
    module = copy.deepcopy(module, memo)
    return Problem(module, batch, batch_size, device)


def _own_problem(model, X, y, loss, batch_size, device):
    from skhash.training._module import Batch

    trained = [each.dtype for each in model.parameters() if each.requires_grad]
    if not trained:
        raise ValueError(
            f"No parameter of model={model!r} has requires_grad, so there is no "
            "gradient to measure."
        )
    if y is not None:
        y = y if isinstance(y, torch.Tensor) else torch.as_tensor(np.array(as_array(y)))
        y = y.to(trained[0]) if y.is_floating_point() else y
        if len(y) != len(X):
            raise ValueError(f"y has {len(y)} rows, but X has {len(X)}.")
    module = _OwnModule(copy.deepcopy(model), loss)
    return Problem(module, Batch.of(X, labels=y), batch_size, device)


class _Logits(nn.Module):
    """The model of a function of bits: logits that do not depend on rows."""

    def __init__(self, logits):
        super().__init__()
        self.logits = nn.Parameter(logits.clone())

    def forward(self, X):
        return self.logits


class _OwnModule(nn.Module):
    """A user's model and loss, as a module like those of the encoders.

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
        st = StraightThrough()
        self.gradient = LayerwiseNetwork(st) if hasattr(model, "realize") else st

    def forward(self, X):
        return X

    def loss(self, X, batch):
        targets = () if batch.labels is None else (batch.labels,)

        def losses_of(values):
            losses = self.function(values, *targets)
            if losses.shape != values.shape[:-1]:
                raise ValueError(
                    f"The loss has shape {tuple(losses.shape)} for values of shape "
                    f"{tuple(values.shape)}; it must be one number per row, of shape "
                    f"{tuple(values.shape[:-1])}. Reduce only the last axis."
                )
            return losses

        known = {"generator": self.generator, "rows": batch.rows}
        if isinstance(self.gradient, NetworkGradient):
            losses = self.gradient.network_surrogate(losses_of, self.model, X, **known)
        else:
            losses = self.gradient.surrogate(losses_of, self.model(X), **known)
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

    Attributes
    ----------
    groups : dict of slice
        Of a gradient, by names of parts of the module.
    widths : list of int
        The numbers of units of its layers.
    """

    def __init__(self, module, batch, batch_size, device):
        self.module, self.device = module.to(device), device
        # With it, an estimator and the reference would have other losses.
        for part in module.modules():
            if isinstance(part, _DropoutNd) or hasattr(part, "dropout"):
                part.training = False
        self.is_network = isinstance(module.gradient, NetworkGradient)
        named = [named for named in module.named_parameters() if named[1].requires_grad]
        self.parameters = [parameter for _, parameter in named]
        self.groups = _slices(named, self.is_network)
        self.batch = batch.to(device, self.parameters[0].dtype)
        self.batch_rows = min(batch_size or len(batch), len(batch))
        self.n_batches = -(-len(batch) // self.batch_rows)
        # Changes of a call are put back before the next: all see the same model.
        self.attributes = dict(vars(module))
        self.buffers = [buffer.clone() for buffer in module.buffers()]
        probe = _Probe()
        self.gradient(LayerwiseNetwork(probe) if self.is_network else probe, 0, 0)
        self.widths = getattr(probe, "widths", [])

    def gradient(self, estimator, batch, seed):
        """Return one drawn gradient of a batch as a flat tensor."""
        rows = slice(batch * self.batch_rows, (batch + 1) * self.batch_rows)
        batch = self.batch.take(rows)
        vars(self.module).update(self.attributes)
        for buffer, value in zip(self.module.buffers(), self.buffers, strict=True):
            buffer.copy_(value)
        self.module.gradient = estimator
        self.module.generator = seeded(seed, self.device)
        loss = self.module.loss(self.module(batch.X), batch)
        gradients = torch.autograd.grad(
            loss, self.parameters, allow_unused=True, materialize_grads=True
        )
        return torch.cat([part.flatten() for part in gradients])


class _Probe(StraightThrough):
    """Records the number of units of a module, layer by layer."""

    def sample(self, logits, generator=None, **options):
        self.widths = [*getattr(self, "widths", []), logits.shape[-1]]
        return super().sample(logits, generator, **options)


def seeded(seed, device):
    """Return a generator of this seed.

    The global ones get the next one, for the model's own noise, which has to differ
    from that of the units. `torch.manual_seed` would take longer than a small gradient.
    """
    torch.default_generator.manual_seed(seed + 1)
    if device.type == "cuda":
        torch.cuda.manual_seed(seed + 1)
    return torch.Generator(device=device).manual_seed(seed)


def _slices(named, is_network):
    """Return the slice of each group of parameters, and of all if there are several.

    A group is a layer of a network, or what the names of parameters begin with.
    """
    sizes = {}
    for name, parameter in named:
        layer = re.search(r"layers\.\d+|head", name) if is_network else None
        group = layer[0] if layer else name.removeprefix("model.").split(".")[0]
        sizes[group] = sizes.get(group, 0) + parameter.numel()
    ends = np.cumsum(list(sizes.values())).tolist()
    slices = dict(zip(sizes, map(slice, [0, *ends[:-1]], ends), strict=True))
    return slices if len(slices) == 1 else {"all": slice(0, ends[-1])} | slices
