"""The report itself: problem, reference, trials, rows."""

from collections.abc import Callable, Mapping

import numpy as np
import torch
from sklearn.utils import check_random_state

from skhash.gradients._antithetic import ARM
from skhash.gradients._base import GradientEstimator
from skhash.gradients._exact import Exact
from skhash.gradients._exact_network import ExactNetwork
from skhash.gradients._network import NetworkGradient
from skhash.gradients.report._problems import make_problem
from skhash.gradients.report._result import GradientReport
from skhash.gradients.report._trials import Reference, measure
from skhash.utils.parameters import Count, CountFrom2, RandomState, checked
from skhash.utils.torch import resolve_device, seeded_globals

# Largest number of units whose states a reference enumerates.
MAX_EXACT_BITS = 12
# Samples of one call of a sampled reference: they bound its memory.
REFERENCE_CHUNK = 10


@checked
def gradient_report(
    model,
    X,
    estimators,
    *,
    loss: Callable | None = None,
    y=None,
    n_trials: CountFrom2 = 100,
    reference_samples: Count = 1000,
    batch_size: Count | None = None,
    random_state: RandomState = None,
    device: str = "cpu",
) -> GradientReport:
    r"""Compare gradient estimators on your model, at its current parameters.

    Every estimator draws its gradient h many times, and the draws are compared with a
    reference g. With E the mean over trials and batches, the measurements are the
    expected cosine similarity, the expected improvement, the root mean squared error,
    the bias and the spread:

    .. math::
        E \frac{\langle g, h \rangle}{|g| |h|}, \quad
        -\frac{E \langle g, h \rangle}{\sqrt{E |h|^2}}, \quad
        \sqrt{E |h - g|^2}, \quad
        \frac{|E h - g|}{|g|}, \quad
        \frac{\sqrt{E |h - E h|^2}}{|g|}

    The improvement is the change of the loss, to first order, by a step along -h whose
    root mean square length is 1; it is negative if the loss falls, so lower is better.
    Its square is, up to a factor that all estimators share, what a step of optimal
    length gains, minus the minimum over alpha of
    ``E[-alpha <g, h> + alpha^2 |h|^2 / (2 eps)]``. It weighs bias against variance; its
    optimum is :math:`-\sqrt{E |g|^2}`. The squared error, relative to the squared norm
    of g, is the sum of the squares of bias and spread.

    Parameters
    ----------
    model : callable, torch module or fitted encoder
        Model to measure, of one of four kinds. It is copied, not changed.

        * A function from values of units, of shape (..., n_rows, n_bits), to losses, of
          shape (..., n_rows). The gradient is that of the mean over rows, in the
          logits. Units are 0 and 1, with logistic noise, here and in the next kind.
        * A torch module that maps rows to logits, of shape (n_rows, n_bits), with
          `loss`. The gradient is that in all parameters of the module.
        * A `skhash.networks.StochasticBinaryNetwork`, or another module with
          ``realize``, with `loss`. The same, for estimators of whole networks.
        * A fitted encoder that was trained with a gradient estimator, such as
          `skhash.StochasticAutoencoderHash`, or a fitted `skhash.SBNClassifier`. The
          gradient is that of its loss.
    X : array-like or Tensor of shape (n_rows, n_columns)
        Logits for a function, otherwise the rows on which the loss is computed. A
        module may accept more axes, such as those of images.
    estimators : list or dict
        Estimators to compare: names as in `gradient=`, or instances of classes of
        `skhash.gradients`. Pass a dict from labels to estimators to set the labels.
    loss : callable or None, default=None
        Loss of a torch module: a function ``loss(values)``, or ``loss(values, y)`` if
        `y` is given, that maps values of its units, or outputs of a network, of shape
        (..., n_rows, n), to losses, of shape (..., n_rows). The first axes are samples.
        Other parts of the loss, such as a decoder, are used as they are.
    y : array-like of shape (n_rows, ...) or None, default=None
        Targets of `loss`, such as `X` itself; for a classifier, the classes.
    n_trials : int, default=100
        Number of times that each estimator draws its gradient for each batch.
    reference_samples : int, default=1000
        Number of samples of `ARM` whose mean is the reference, if a layer has more than
        12 units, if a classifier has ``n_draws`` above 1, or if not only units are
        random, but weights too, or the logits of a correlated posterior. Otherwise the
        reference is exact, by enumerating all states.
    batch_size : int or None, default=None
        Number of rows per batch; each batch has a separate gradient and reference. None
        puts all rows in one batch, as is always done for a function.
    random_state : int, RandomState instance or None, default=None
        Seed of the draws. All estimators use the same seeds.
    device : str, default="cpu"
        Where to compute. The tensors of `loss` must be on this device.

    Returns
    -------
    report : GradientReport
        The measurements, with ``rows``, ``settings`` and ``plot()``. ``print`` shows a
        table.

    Raises
    ------
    ValueError
        If an argument is out of range, or if `X` has no rows.
    TypeError
        If `model` is none of the four kinds.

    Notes
    -----
    The groups of parameters are "all" and, for a module, the first components of the
    parameters' names; for a network, the layers. Every model is measured without
    dropout, and a classifier with batch norms in evaluation mode and with its current
    ``n_draws``. An estimator with state,
    such as a moving baseline, starts without any and learns over the trials. A sampled
    reference is noisy, which affects every measurement; ``settings`` says how much.

    References
    ----------
    A. Shekhovtsov and V. Yanush, "Reintroducing straight-through estimators as
    principled methods for stochastic binary networks", GCPR 2021; equations 61 to 66 of
    the preprint's appendix.

    Examples
    --------
    The loss ``(x w - 1)^2`` of three units. Straight-through is biased here. ZGR, for
    a quadratic function, and ARM are not: what they show is within chance.

    >>> import torch
    >>> from skhash.gradients import gradient_report
    >>> w = torch.tensor([1.0, -2.0, 0.5])
    >>> logits = torch.tensor([[1.0, -1.0, 1.5]])
    >>> report = gradient_report(
    ...     lambda x: (x @ w - 1).square(), logits, ["st", "zgr", "arm"],
    ...     n_trials=1000, random_state=0,
    ... )
    >>> report
    <GradientReport: 3 estimators, 1000 trials, reference Exact()>
    >>> [row.bias > 3 * row.bias_floor for row in report.rows]
    [True, False, False]

    A custom encoder and decoder. A linear loss is exact for straight-through:

    >>> encoder, decoder = torch.nn.Linear(4, 3), torch.nn.Linear(3, 4)
    >>> X = torch.randn(5, 4)
    >>> def loss(bits, targets):
    ...     return -(decoder(bits) * targets).sum(dim=-1)
    >>> report = gradient_report(encoder, X, ["st", "arm"], loss=loss, y=X)
    >>> [row.relative_rmse < 1e-4 for row in report.rows if row.group == "all"]
    [True, False]
    """
    device = resolve_device(device)
    random = check_random_state(random_state)
    with seeded_globals(0, device), torch.enable_grad():
        problem = make_problem(model, X, y, loss, batch_size, device)
        estimators = _labelled(estimators, _resolver(problem))
        seeds = _seeds(random, n_trials, problem.n_batches)
        truth = _make_reference(problem, reference_samples, random)
        rows = [
            row
            for label, estimator in estimators.items()
            for row in measure(problem, label, estimator, truth, seeds)
        ]
    noise = truth.relative_noise()
    ceiling = np.sqrt(np.clip(1 - noise**2, 0, 1))
    settings = {
        "n_trials": n_trials,
        "n_rows": len(problem.batch),
        "n_batches": problem.n_batches,
        "n_bits": problem.widths[0] if len(problem.widths) == 1 else problem.widths,
        "groups": {name: s.stop - s.start for name, s in problem.groups.items()},
        "reference": truth.name,
        "reference_noise": dict(zip(problem.groups, noise.tolist(), strict=True)),
        "cosine_ceiling": dict(zip(problem.groups, ceiling.tolist(), strict=True)),
    }
    return GradientReport(rows, settings)


def _resolver(problem):
    """Return the resolver for estimators of one layer, or of a network."""
    from skhash.gradients import resolve_gradient, resolve_network_gradient

    return resolve_network_gradient if problem.is_network else resolve_gradient


def _labelled(estimators, resolve) -> dict[str, GradientEstimator | NetworkGradient]:
    """Return fresh estimators by label."""
    if isinstance(estimators, str | GradientEstimator | NetworkGradient):
        estimators = [estimators]
    if not isinstance(estimators, Mapping):
        labels = list(map(str, estimators))
        if len({*labels}) < len(labels):
            raise ValueError(
                f"estimators names one more than once: {', '.join(labels)}. Give a "
                "dict from labels to estimators."
            )
        estimators = dict(zip(labels, estimators, strict=True))
    if not estimators:
        raise ValueError("estimators is empty; give at least one, such as ['st'].")
    return {str(label): resolve(each) for label, each in estimators.items()}


def _make_reference(problem, n_samples, random):
    few = 0 < max(problem.widths, default=0) <= MAX_EXACT_BITS
    exact = ExactNetwork() if problem.is_network else Exact()
    is_one_layer = problem.is_network or len(problem.widths) == 1
    is_one_draw = getattr(problem.module, "n_samples", 1) == 1
    if few and is_one_layer and is_one_draw and _draws_units_alone(problem, exact):
        seeds, name = np.zeros((1, problem.n_batches), dtype=int), repr(exact)
        return Reference(problem, exact, seeds, name)
    per_call = min(n_samples, REFERENCE_CHUNK)
    n_calls = max(2, -(-n_samples // per_call))  # from two on, their spread shows
    seeds = _seeds(random, n_calls, problem.n_batches)
    name = f"ARM, {n_calls * per_call} samples"
    estimator = _resolver(problem)(ARM(n_samples=per_call))
    return Reference(problem, estimator, seeds, name)


def _draws_units_alone(problem, exact):
    """Return whether nothing but units is random, such as weights or logits."""
    one, other = (problem.gradient(exact, 0, seed) for seed in (0, 1))
    return (one - other).norm() <= 1e-4 * one.norm()


def _seeds(random, *shape):
    """Return integers that seed torch."""
    return random.randint(np.iinfo(np.int32).max, size=shape)
