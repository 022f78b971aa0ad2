"""What `gradient_report` measures: drawn gradients of a model, and their errors.

A problem has ``gradient(estimator, batch, seed)``, which returns one drawn gradient as
a flat tensor, ``groups``, which names slices of it, ``named``, its parameters,
``widths``, the numbers of units of its layers, ``is_network``, whether its estimators
are those of a network, and ``n_rows``, ``batch_rows`` and ``n_batches``.
"""

import copy
import re
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np
import torch

from skhash.gradients._network import LayerwiseNetwork, NetworkGradient
from skhash.gradients._straight_through import StraightThrough

# For the bootstrap of the bias, trials are merged into blocks, within these numbers and
# so that the mean gradients of all blocks take no more elements than the third.
MIN_BLOCKS, MAX_BLOCKS = 8, 200
BLOCK_ELEMENTS = 2**23
N_BOOTSTRAP = 500


class FunctionProblem:
    """The gradient, in the logits, of the mean over rows of a function of bits."""

    is_network = False

    def __init__(self, function, logits, units, device):
        self.function, self.units, self.device = function, units, device
        self.logits = logits.to(device).clone().requires_grad_()
        self.rows = torch.arange(len(logits), device=device)
        self.groups = {"logits": slice(0, logits.numel())}
        self.named = {"logits": self.logits}
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
        self.named = {
            name: parameter
            for name, parameter in self.module.named_parameters()
            if parameter.requires_grad
        }
        self.parameters = list(self.named.values())
        self.is_network = isinstance(self.module.gradient, NetworkGradient)
        self.groups = _slices(self.named, _layer_of if self.is_network else _part_of)
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


def flatten_given(problem, gradients):
    """Return given gradients, one a parameter, as one flat tensor."""
    named = problem.named
    if gradients.keys() != named.keys() or problem.n_batches > 1:
        raise ValueError(
            f"The reference has gradients of {', '.join(gradients) or 'nothing'}, and "
            f"the rows make {problem.n_batches} batch(es); it takes one each of "
            f"{', '.join(named)}, of all rows as one batch (batch_size=None)."
        )
    parts = []
    for name, parameter in named.items():
        part = torch.as_tensor(gradients[name]).detach().to(parameter)
        if part.shape != parameter.shape:
            raise ValueError(
                f"The reference of {name!r} has the shape {tuple(part.shape)}, but the "
                f"parameter has {tuple(parameter.shape)}."
            )
        parts.append(part.flatten())
    return torch.cat(parts)


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


@dataclass
class Reference:
    """The gradient that others are compared with, a flat tensor a batch.

    ``squared_noise`` estimates, for each group, the expected squared distance of this
    gradient from the true one, summed over batches; ``squared_norms`` are its own, of
    shape (n_batches, n_groups).
    """

    gradients: list[torch.Tensor]
    squared_noise: np.ndarray
    squared_norms: np.ndarray
    name: str


def sampled_reference(problem, estimator, seeds, name):
    """Return the mean of an estimator's gradients, one a seed.

    Their spread tells the noise of the mean.
    """
    n_calls, n_batches = seeds.shape
    groups = problem.groups.values()
    gradients, noise = [], np.zeros(len(groups))
    for batch in range(n_batches):
        mean, spread = 0.0, np.zeros(len(groups))
        for call, seed in enumerate(seeds[:, batch], start=1):
            change = problem.gradient(estimator, batch, int(seed)) - mean
            mean = mean + change / call
            spread += (call - 1) / call * group_sums(change * change, groups)
        gradients.append(mean)
        noise += spread / (n_calls * max(n_calls - 1, 1))
    return Reference(gradients, noise, _squared_norms(gradients, groups), name)


def given_reference(problem, gradient):
    """Return the reference of a gradient that is given, of the only batch."""
    groups = problem.groups.values()
    norms = _squared_norms([gradient], groups)
    return Reference([gradient], np.zeros(len(groups)), norms, "given")


def _squared_norms(gradients, groups):
    return np.stack([group_sums(gradient.square(), groups) for gradient in gradients])


def group_sums(values, groups):
    """Sum the last axis within each group, in float64: shape (..., n_groups)."""
    sums = [values[..., part].sum(dim=-1, dtype=torch.float64) for part in groups]
    return torch.stack(sums, dim=-1).cpu().numpy()


@dataclass
class Trials:
    """What is kept of an estimator's gradients h against the reference g.

    Arrays of shape (n_trials, n_batches, n_groups): products ``<g, h>``, squared norms
    ``|h|^2`` and ``|h - g|^2``. ``block_products`` are those of the mean errors of
    blocks of trials, summed over batches: (n_groups, n_blocks, n_blocks).
    """

    products: np.ndarray
    squares: np.ndarray
    errors: np.ndarray
    block_products: np.ndarray
    block_sizes: np.ndarray


def run_trials(problem, estimator, reference, seeds):
    """Draw the gradient of every trial and batch and keep a few numbers of each."""
    n_trials, n_batches = seeds.shape
    groups = problem.groups.values()
    room = BLOCK_ELEMENTS // len(reference.gradients[0])
    n_blocks = min(int(np.clip(room, MIN_BLOCKS, MAX_BLOCKS)), n_trials)
    block_of = np.arange(n_trials) * n_blocks // n_trials
    sizes = np.bincount(block_of)
    kept = np.empty((3, n_trials, n_batches, len(groups)))
    block_products = 0.0
    for batch, truth in enumerate(reference.gradients):
        blocks = truth.new_zeros(len(sizes), len(truth))
        for trial, block in enumerate(block_of):
            drawn = problem.gradient(estimator, batch, int(seeds[trial, batch]))
            error = drawn - truth
            values = torch.stack([truth * drawn, drawn * drawn, error * error])
            kept[:, trial, batch] = group_sums(values, groups)
            blocks[block] += error / sizes[block]
        block_products += np.stack([_gram(blocks[:, part]) for part in groups])
    return Trials(*kept, block_products, sizes)


def _gram(rows):
    rows = rows.double()
    return (rows @ rows.T).cpu().numpy()
