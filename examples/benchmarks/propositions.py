"""The numbered statements of five papers, checked on cases that can be enumerated.

Each check is a short function, whose docstring is the claim: it makes random cases from
a seed, computes both sides of the claim, mostly as sums over all states, and
decides by a rule that stands beside its figures::

    python examples/benchmarks/propositions.py --output docs/results/propositions.json

Two minutes of one core. ``--only B.1 B.2`` checks those whose numbers contain one of
these words. States are -1 and +1; the noise is logistic with F(a) = sigmoid(2 a),
unless a check says otherwise.
"""

import inspect
import itertools
import math

import numpy as np
import torch
from psa_toy import toy
from scipy.integrate import quad
from scipy.special import expit, logit
from tools import Table, options, save

from skhash import SBNClassifier
from skhash.noise import Logistic, Triangular, Uniform

CHECKS = {paper: {} for paper in ("SGH", "CorrSH", "ST", "PSA", "DualHash")}
SEEDS = (0, 1, 2)
EXACT = 1e-9


def check(paper, number, otherwise="does not hold"):
    """Register a check under a paper and the number there.

    Its docstring has the claim, and how what was measured is written. It returns
    whether the claim holds, and what was measured; "otherwise" is the verdict if not.
    """

    def register(function):
        claim, _, text = inspect.getdoc(function).partition("\n\n")
        text = text.replace("\n", " ") or "{}"
        CHECKS[paper][number] = function, claim, text, otherwise
        return function

    return register


def over_seeds(function, *arguments, seeds=SEEDS):
    """Return what a function finds with the random numbers of each seed."""
    generators = (torch.Generator().manual_seed(seed) for seed in seeds)
    return np.array([function(g, *arguments) for g in generators])


def only_rounding(errors):
    """Return whether the largest of some errors is but rounding, and that error."""
    worst = np.max(errors)
    return worst < EXACT, worst


def randn(generator, *shape):
    return torch.randn(shape, generator=generator)


def slope(x, y):
    """Return the exponent of a power law."""
    return float(np.polyfit(np.log(x), np.log(np.abs(y)), 1)[0])


def listed(values, form):
    return " ".join(format(value, form) for value in values)


def states(n):
    return torch.tensor(list(itertools.product([-1.0, 1.0], repeat=n)))


def flipped(x):
    """Return states with each of the units turned, one at a time."""
    return x[:, None] - 2 * torch.diag_embed(x)


def F(a):
    return torch.sigmoid(2 * a)


def density(a):
    return 2 * F(a) * F(-a)


def largest(values):
    return float(values.abs().max())


def relative(found, right):
    return float((found - right).norm() / right.norm())


# One layer


def one_layer(loss, a):
    """Return exact and straight-through gradients in the logits, expected."""
    a = a.clone().requires_grad_()
    x = states(len(a))
    p = F(x * a).prod(dim=1)
    (exact,) = torch.autograd.grad(p @ loss(x), a)
    inputs = x.clone().requires_grad_()
    (slopes,) = torch.autograd.grad(loss(inputs).sum(), inputs)
    return exact, 2 * density(a.detach()) * (p.detach() @ slopes)


def st_bias(loss, a):
    return relative(*one_layer(loss, a)[::-1])


def generic_case(generator):
    """Return a loss of four units, their logits, states and probabilities."""
    w, v = randn(generator, 2, 4)
    x, a = states(4), randn(generator, 4)
    p = F(x * a).prod(dim=1)
    return lambda x: torch.sin(x @ w) + torch.exp(0.25 * x @ v), a, x, p


# A network: weights and biases, the last of which are the head's.


def make_network(generator, widths, factor=1.0, bias=1.0):
    pairs = itertools.pairwise([3, *widths, 2])
    return [
        (factor * randn(generator, m, n) / n**0.5, bias * randn(generator, m))
        for n, m in pairs
    ]


X0 = torch.tensor([0.8, -0.3, 1.1], dtype=torch.float64)


def network_loss(outputs):
    first, second = outputs.unbind(dim=-1)
    return torch.sin(2 * first) + torch.exp(0.4 * second) + first * second


def walk(network):
    """Return the logits and states of each layer on all paths, and the probability."""
    widths = [len(b) for _, b in network[:-1]]
    layers = states(sum(widths)).split(widths, dim=1)
    x, p, logits = X0.expand(len(layers[0]), -1), 1.0, []
    for (W, b), now in zip(network, layers, strict=False):
        logits.append(x @ W.T + b)
        p = p * F(now * logits[-1]).prod(dim=1)
        x = now
    return logits, layers, p


def exact_gradients(network):
    """Return the gradient in each layer's weights and biases, as one vector each."""
    network = [tuple(v.clone().requires_grad_() for v in pair) for pair in network]
    _, layers, p = walk(network)
    W, b = network[-1]
    value = p @ network_loss(layers[-1] @ W.T + b)
    pairs = [torch.autograd.grad(value, pair, retain_graph=True) for pair in network]
    return [torch.cat([w.flatten(), b]) for w, b in pairs[:-1]]


def psa_gradients(network, linear=False):
    """Return those of path sample-analytic gradients; linear: of straight-through.

    They are the products D Delta .. Delta df of finite differences along each path, or
    the same with F and the loss linearized at the path.
    """
    logits, layers, p = walk(network)
    x = layers[-1].clone().requires_grad_()
    W, b = network[-1]
    loss = network_loss(x @ W.T + b)
    (slopes,) = torch.autograd.grad(loss.sum(), x)
    x = x.detach()
    df = loss.detach()[:, None] - network_loss(flipped(x) @ W.T + b)
    df = 2 * x * slopes if linear else df
    found = []
    for k in reversed(range(len(layers))):
        a, now = logits[k], layers[k]
        below = layers[k - 1] if k else X0.expand(len(a), -1)
        g = p[:, None] * now * density(a) * df
        found.append(torch.cat([(g.T @ below).flatten(), g.sum(dim=0)]))
        shift = 2 * network[k][0] * below[:, None]
        Delta = F(a)[..., None] - F(a[..., None] - shift)
        Delta = density(a)[..., None] * shift if linear else Delta
        df = ((now * df)[:, None] @ Delta)[:, 0]
    return found[::-1]


def psa_biases(generator, *widths):
    network = make_network(generator, widths)
    pairs = zip(psa_gradients(network), exact_gradients(network), strict=True)
    return [relative(*pair) for pair in pairs]


# Straight-through


@check("ST", "Fig. A.1")
def _():
    """the noises have mean 0 and twice their density at 0 is 1

    within {:.0e}, three noises
    """
    grid, middle, errors = torch.linspace(-30, 30, 600_001), 300_000, []
    for law in (noise.cdf(grid) for noise in (Logistic(), Uniform(), Triangular())):
        at_0 = (law[middle + 1] - law[middle - 1]) / (grid[2] - grid[0])
        mean = (1 - law[middle:]).sum() - law[:middle].sum()
        errors += [largest(2 * at_0 - 1), largest(mean - 0.5) * 1e-4]
    return max(errors) < 1e-4, max(errors)


@check("ST", "Prop. B.1")
def _():
    """ST does not change if noise and logits are mapped in the same way

    largest difference {:.0e}
    """
    a = torch.linspace(-2, 2, 9)
    values, step = (a**3 + a).tolist(), 1e-5

    def law(shift):  # of the mapped noise
        roots = [np.roots([1, 0, 1, -(value + shift)]) for value in values]
        return F(torch.tensor([r[np.abs(r.imag).argmin()].real for r in roots]))

    slopes = (law(step) - law(-step)) / (2 * step)
    error = largest(slopes * (3 * a**2 + 1) - density(a))
    return error < 1e-8, error


@check("ST", "Cor. B.1")
def _():
    """mapped by F, noise is uniform and the slope is the identity

    the distribution of the mapped noise is off by {:.0e}
    """
    p = F(torch.linspace(-2, 2, 9))
    return only_rounding(largest(F(torch.logit(p) / 2) - p))


@check("ST", "Prop. B.2")
def _():
    """ST is unbiased for multilinear losses

    relative bias {:.0e}
    """

    def bias(generator):
        c, a = randn(generator, 16), randn(generator, 4)
        on = states(4) > 0  # which units a monomial has
        return st_bias(lambda x: torch.where(on, x[:, None], 1.0).prod(dim=-1) @ c, a)

    return only_rounding(over_seeds(bias))


@check("ST", "Example 1")
def _():
    """for x^2 the expected ST gradient is 4 F' (2 F - 1), not 0

    {:.3f}, although the exact gradient is {:.0e}
    """
    a = torch.tensor([0.7])
    exact, st = one_layer(lambda x: x.square().sum(dim=1), a)
    error = largest(st - 4 * density(a) * (2 * F(a) - 1))
    return error < EXACT, float(st), float(exact)


@check("ST", "Example 2", "in part")
def _():
    """x - sin(2 pi x) has the slope -1 at 0 and 1

    the slope is {:.2f}; x - sin(2 pi x) / pi has the slope -1. The direction is wrong
    in both cases
    """
    found = 1 - 2 * math.pi
    return found == -1, found


@check("ST", "Prop. B.3")
def _():
    """the squared error has a multilinear form that corrects ST

    bias {:.0e} with it, and {:.2f} without it
    """

    def errors(generator):
        W, y, a = (randn(generator, *shape) for shape in ((5, 4), (5,), (4,)))

        def plain(x):
            return (x @ W.T - y).square().sum(dim=1)

        def mended(x):
            return plain(x) - (x.square() - 1) @ W.square().sum(dim=0)

        exact, biased = one_layer(plain, a)
        apart = largest(plain(states(4)) - mended(states(4)))
        right = relative(one_layer(mended, a)[1], exact)
        return max(apart, right), relative(biased, exact)

    found = over_seeds(errors)
    return *only_rounding(found[:, 0]), found[-1, 1]


def count_negative(first, second, J):
    """Return how many inner products are negative, in logits and in parameters."""
    inside = (first * second).sum(dim=1)
    outside = torch.einsum("ki,kij,kj->k", first, J @ J.mT, second)
    return int((inside < 0).sum()), int((outside < 0).sum())


@check("ST", "Prop. B.4", "in part")
def _():
    """ST with another positive slope never points against ST

    in {} of {} cases it points against ST in the logits, and in {} in parameters behind
    a linear map
    """
    n, generator = 10_000, torch.Generator().manual_seed(0)
    g, J = randn(generator, n, 3), randn(generator, n, 3, 3)
    one, two = torch.rand(2, n, 3, generator=generator)
    logits, parameters = count_negative(g * one, g * two, J)
    return logits == parameters == 0, logits, n, parameters


def quadratic_cases(n=100_000, size=3):
    """Return expected and own slopes of random quadratic losses, and Lipschitz bounds.

    The slope of unit i is c_i + A_i x; its bounds are in x_i alone, and in all units.
    """
    generator = torch.Generator().manual_seed(0)
    A = randn(generator, n, size, size)
    A = (A + A.mT) / 2
    c, a = 2 * randn(generator, n, size), 2 * randn(generator, n, size)
    m, x = 2 * F(a) - 1, torch.sign(a)
    own = torch.diagonal(A, dim1=1, dim2=2)
    g, at = c + (A @ m[..., None])[..., 0], c + (A @ x[..., None])[..., 0]
    likeliest = F(a.abs()).prod(dim=1, keepdim=True)
    slopes = {"g": g, "at": at, "true": 2 * (g - own * m)}
    return slopes | {"p": likeliest, "a": a, "own": own.abs(), "all": A.abs().sum(2)}


def count_turned(first, second, condition, a):
    """Return how many cases fulfil a condition, and turn in logits and parameters."""
    chosen = condition.all(dim=1)
    slopes = density(a[chosen])
    J = randn(torch.Generator().manual_seed(1), len(slopes), 3, 3)
    pair = first[chosen] * slopes, second[chosen] * slopes
    return len(slopes), *count_negative(*pair, J)


@check("ST", "Prop. B.5", "in part")
def _():
    """if E g is larger than its Lipschitz constant, ST points along the gradient

    of {} cases, {} point against it in the logits and {} in the parameters
    """
    case = quadratic_cases()
    exceeds = case["g"].abs() > case["own"]
    n, logits, parameters = count_turned(case["g"], case["true"], exceeds, case["a"])
    return logits == parameters == 0, n, logits, parameters


@check("ST", "Prop. B.6")
def _():
    """Lipschitz constants fall with one over the square root of the number of units

    exponent {:.2f}, 200 seeds per size
    """

    def constant(generator, n):
        W = randn(generator, 3, n) / n**0.5
        x, y = 2 * torch.randint(2, (2, n), generator=generator) - 1.0
        return float((W.T @ (torch.tanh(W @ x) - torch.tanh(W @ y))).abs().mean())

    sizes = [16, 64, 256, 1024]
    found = [over_seeds(constant, n, seeds=range(200)).mean() for n in sizes]
    rate = slope(sizes, found)
    return abs(rate + 0.5) < 0.1, rate


@check("ST", "Cor. B.2")
def _():
    """with more units, the bias of ST at the start falls

    relative bias {} with {} units
    """

    def bias(generator, n):
        W, a = randn(generator, 3, n) / n**0.5, 0.5 * randn(generator, n)
        return st_bias(lambda x: torch.logsumexp(2 * x @ W.T, dim=1) - 2 * x @ W[0], a)

    sizes = [2, 4, 8, 12]
    found = [np.median(over_seeds(bias, n, seeds=range(50))) for n in sizes]
    return np.all(np.diff(found) < 0), listed(found, ".3f"), sizes


def deterministic(second, factor):
    """Return how often det_st turns where it is sure, by both Lipschitz bounds."""
    case = quadratic_cases()
    p, at, a = case["p"], case["at"], case["a"]
    (n, logits, parameters), (m, own, _) = (
        count_turned(at, case[second], at.abs() >= (2 * (1 - p) + factor) * case[it], a)
        for it in ("all", "own")
    )
    return own == logits == parameters == 0, n, logits, parameters, own, m


@check("ST", "Prop. B.7", "in part")
def _():
    """if bits are surer than the Lipschitz constant requires, det_st agrees with ST

    with the constant of all units, of {} cases {} point against it in the logits and {}
    in the parameters; with the constant of the unit alone, {} of {} in the logits
    """
    return deterministic("g", 0)


@check("ST", "Prop. B.8", "in part")
def _():
    """if bits are surer still, det_st agrees with the gradient

    with the constant of all units, of {} cases {} point against it in the logits and {}
    in the parameters; with the constant of the unit alone, {} of {} in the logits
    """
    return deterministic("true", 1)


@check("ST", "Prop. 1")
def _():
    """steps of latent weights are mirror descent in probabilities

    stationary within {:.0e}; with uniform noise, which is not strictly monotone,
    {:.2f}, because weights are clipped
    """
    generator, residuals = np.random.default_rng(0), []
    uniform = lambda e: np.clip((e + 1) / 2, 0, 1), lambda p: 2 * p - 1
    for law, inverse in ((expit, logit), uniform):
        eta, g = generator.uniform(-0.9, 0.9, (100, 2)).T
        residual = 0.5 * g + inverse(law(eta - 0.5 * g)) - inverse(law(eta))
        residuals.append(np.abs(residual).max())
    return residuals[0] < EXACT, residuals[0], residuals[1]


@check("ST", "Prop. 2")
def _():
    """latent decay is a step of variational Bayes

    exact for logistic noise as a division by 1 + eps lambda; subtracting the decay
    differs with order {:.1f} of eps. Other noises have no such form
    """
    eta, g, weight, eps = 1.3, 0.7, 0.4, np.array([0.1, 0.05, 0.025])
    right = (eta - eps * g) / (1 + eps * weight)  # logistic noise: KL is linear
    residual = eps * g + eps * weight * logit(expit(right)) + right - eta
    rate = slope(eps, eta - eps * (g + weight * eta) - right)
    return np.abs(residual).max() < EXACT, rate


ETA = 0.7


def bell(z):
    """Return the density of unit logistic noise."""
    return 1 / (2 + 2 * math.cosh(z))


def gumbel_mean(slope_of_loss, tau):
    """Return the expectation of the Gumbel-softmax gradient, unit logistic noise."""

    def integrand(u):
        v = 1 / (1 + math.exp(-u))
        return slope_of_loss(v) * v * (1 - v) * bell(ETA - tau * u)

    return quad(integrand, -40, 40, limit=400, epsabs=1e-13)[0]


@check("ST", "Prop. E.1")
def _():
    """Gumbel-softmax is unbiased as tau -> 0, with bias O(tau)

    order {:.1f} for a cubic loss, {:.1f} for a linear one
    """
    taus, rates = [0.02, 0.01, 0.005], []
    for slope_of_loss in (lambda v: 1.0, lambda v: 3 * v * v):  # both rise by 1
        biases = [gumbel_mean(slope_of_loss, tau) - bell(ETA) for tau in taus]
        rates.append(slope(taus, biases))
    return rates[1] > 0.9, rates[1], rates[0]


@check("ST", "Prop. E.2")
def _():
    """for a given draw, its gradient is proportional to exp(-abs(x) / tau) / tau

    ratio to it {:.4f}
    """
    x, tau = 0.8, 0.025
    ratio = math.exp(-x / tau) / bell(x / tau)
    return abs(ratio - 1) < 1e-3, ratio


@check("ST", "Prop. E.3", "in part")
def _():
    """a gradient above eps has a probability of O(tau log 1/eps)

    ratio to it {} at tau 1e-2, 1e-4, 1e-6: the probability is 2 p' tau log(1 / (tau
    eps)), with p' = p (1 - p), because the slope has the factor 1 / tau
    """
    eps, ratios = 0.01, []
    for tau in (1e-2, 1e-4, 1e-6):
        root = math.sqrt(1 - 4 * tau * eps)
        q = 2 * math.log((1 + root) / math.sqrt(4 * tau * eps))
        share = expit(ETA + tau * q) - expit(ETA - tau * q)
        ratios.append(share / (bell(ETA) * tau * math.log(1 / eps)))
    return max(ratios) < 3, listed(ratios, ".1f")


@check("ST", "Prop. E.4")
def _():
    """its variance grows with 1 / tau

    exponent {:.2f}
    """
    taus, found = [0.1, 0.05, 0.025], []
    for tau in taus:
        square = gumbel_mean(lambda v, tau=tau: v * (1 - v) / tau, tau)
        found.append(square - gumbel_mean(lambda v: 1.0, tau) ** 2)
    rate = slope(taus, found)
    return abs(rate + 1) < 0.15, rate


@check("ST", "App. E, V")
def _():
    """straight-through Gumbel-softmax halves a linear gradient

    ratio to the gradient {:.4f}, because the halves of the two states are added
    """
    ratio = gumbel_mean(lambda v: 1.0, 1e-3) / bell(ETA)
    return abs(ratio - 0.5) < 0.01, ratio


def bayesbinn(tau, n_rows, start=1.0, published=False, rate=0.1):
    """Return the signs of weights after each step of BayesBiNN, or of its limit."""
    generator, signs = np.random.default_rng(0), []
    X = generator.normal(size=(50, 5))
    y = X @ np.array([1, -1, 1, 1, -1]) + 0.1 * generator.normal(size=50)
    generator = np.random.default_rng(1)
    eta = start * np.random.default_rng(2).uniform(-10, 10, 5)
    for _ in range(300):
        z = 0.5 * generator.logistic(size=5)
        w = np.tanh((eta - z) / tau) if published else np.sign(eta)
        s = n_rows / tau
        if published:
            s *= (1 - w**2 + 1e-10) / (1 - np.tanh(eta) ** 2 + 1e-10)
        eta = (1 - rate) * eta - rate * s * (X.T @ (X @ w - y) / len(X))
        signs.append(np.sign(eta))
    return np.array(signs)


def share_equal(first, second):
    return (first == second).all(axis=1).mean()


@check("ST", "Prop. F.1", "in part")
def _():
    """BayesBiNN at tau = 1e-10 is identity ST without noise

    all signs of five weights are equal in {:.0%} of 300 steps; at tau = 1e-2, in {:.0%}
    """
    cold, warm = (
        share_equal(bayesbinn(tau, 50_000, published=True), bayesbinn(tau, 50_000))
        for tau in (1e-10, 1e-2)
    )
    return cold == 1, cold, warm


@check("ST", "Prop. F.2")
def _():
    """its result depends neither on tau nor on the number of rows

    if the start is measured in the unit of the steps, all signs are equal; with the
    same start, in {:.0%} of 300 steps
    """
    base, same = bayesbinn(1e-10, 50_000), bayesbinn(1e-3, 100)
    scaled = bayesbinn(1e-3, 100, start=100e3 / 50_000e10)
    return share_equal(base, scaled) == 1, share_equal(base, same)


# Path sample-analytic


@check("PSA", "Prop. A.1")
def _():
    """a network without noise has an expected loss that is as good

    {:.2f} to {:.2f} lower, with scaled weights and biases
    """

    def gain(generator):
        network = make_network(generator, [3, 3])[:2]
        X, values = randn(generator, 8, 3), randn(generator, 8, 8)  # by row and state
        Z = torch.logit(torch.rand(20_000, 2, 3, generator=generator)) / 2

        def losses(network):
            x = X[None]
            for k, (W, b) in enumerate(network):
                x = torch.where(x @ W.T + b > Z[:, None, k], 1.0, -1.0)
            number = ((x > 0) * torch.tensor([4, 2, 1])).sum(dim=2)
            return values[torch.arange(8), number].mean(dim=1)

        found, s = losses(network), 1e6
        best = zip(network, Z[found.argmin()], strict=True)
        sure = [(s * W, s * (b - z)) for (W, b), z in best]
        return float(found.mean() - found.min()), largest(losses(sure) - found.min())

    gains, errors = over_seeds(gain).T
    return gains.min() > 0 and errors.max() == 0, gains.min(), gains.max()


@check("PSA", "Fig. B.1")
def _():
    """training with the bound of ten samples models the ambiguity in the data

    loss of the ensemble {:.3f}, and {:.3f} with the expected loss; the deviation of
    members is {:.2f} and {:.2f}; 3 seeds, 200 epochs
    """
    found = np.array([[ambiguity(seed, n) for n in (10, 1)] for seed in SEEDS])
    losses, spreads = found.mean(axis=0).T
    falls = (found[:, 0, 0] < found[:, 1, 0]).all()
    return falls and spreads[0] > spreads[1], *losses, *spreads


def ambiguity(seed, n_draws):
    """Return the loss of an ensemble, and the deviation of its members' probability."""
    X, y = toy(100, 1)
    torch.set_default_dtype(torch.float32)  # in which networks are trained
    model = SBNClassifier((5, 5, 5), max_epochs=200, batch_size=50, random_state=seed)
    model.set_params(noise=Logistic(2.0), gradient="psa", batch_norm=False)
    model.set_params(init_scale=1.0, lr=0.03, lr_schedule=None, n_predict_samples=1)
    model.set_params(n_draws=n_draws).fit(X, y)
    members = []
    for model.predict_seed_ in range(100):
        members.append(model.predict_proba(X)[np.arange(len(y)), y])
    torch.set_default_dtype(torch.float64)
    return -np.log(np.mean(members, axis=0)).mean(), np.std(members, axis=0).mean()


@check("PSA", "Prop. 1")
def _():
    """derandomizing a layer leaves odd factors; exact except for (11)

    bias {:.0e} if one unit follows, where (11) is exact, and {:.2f} if three do
    """
    wide = np.median(over_seeds(psa_biases, 3, 3)[:, 0])
    return *only_rounding(over_seeds(psa_biases, 4, 1)), wide


@check("PSA", "Lemma B.1")
def _():
    """differences to flipped units give an unbiased gradient

    relative bias {:.0e}
    """

    def bias(generator):
        loss, a, x, p = generic_case(generator)
        found = p @ (x * density(a) * (loss(x)[:, None] - loss(flipped(x))))
        return relative(found, one_layer(loss, a)[0])

    return only_rounding(over_seeds(bias))


@check("PSA", "Prop. 3")
def _():
    """PSA is unbiased with one unit in all layers but the last

    bias {:.2f} with 1-4 units, {:.2f} with 1-1-3, {:.0e} with 4-1 and 3-1-1: correct is
    all layers but the first
    """
    shapes = (1, 4), (1, 1, 3), (4, 1), (3, 1, 1)
    two, three, *others = (over_seeds(psa_biases, *it).max() for it in shapes)
    return max(two, three) < EXACT, two, three, max(others)


@check("PSA", "Prop. 4")
def _():
    """linearized at the path, PSA is straight-through

    within {:.0e} of automatic differentiation; PSA minus ST {} with weights times 1,
    0.1, 0.01
    """

    def differences(generator, factor):
        network = make_network(generator, [3, 3], factor, bias=0.0)
        psa, st = psa_gradients(network)[0], psa_gradients(network, True)[0]
        return relative(psa, st), relative(straight_through(network), st)

    found = np.array([over_seeds(differences, factor) for factor in (1.0, 0.1, 0.01)])
    apart = np.median(found[..., 0], axis=1)
    return *only_rounding(found[..., 1]), listed(apart, ".1g")


def straight_through(network):
    """Return its gradient in the first layer, by automatic differentiation."""
    _, layers, p = walk(network)
    first = tuple(v.clone().requires_grad_() for v in network[0])
    x = X0.expand(len(p), -1)
    for (W, b), now in zip([first, *network[1:-1]], layers, strict=True):
        mean = 2 * F(x @ W.T + b)
        x = now + mean - mean.detach()
    W, b = network[-1]
    weight, bias = torch.autograd.grad(p @ network_loss(x @ W.T + b), first)
    return torch.cat([weight.flatten(), bias])


@check("PSA", "Lemma B.2")
def _():
    """a mean over flips is unbiased and has less variance

    the mean is off by {:.0e}; the variance at gamma = 1/n is {:.2f} to {:.2f} of that
    without, 100 seeds
    """

    def compare(generator):
        loss, a, x, p = generic_case(generator)
        g, mean = loss(x), p @ loss(x)
        baseline = ((loss(flipped(x)) - g[:, None]) * F(-x * a)).sum(dim=1)
        error = max(largest(p @ (g + c * baseline) - mean) for c in (0.25, 1.0))
        some, none = (p @ (v - mean) ** 2 for v in (g + 0.25 * baseline, g))
        return error, float(some / none)

    errors, ratios = over_seeds(compare, seeds=range(100)).T
    is_mean, worst = only_rounding(errors)
    return is_mean and ratios.max() < 1, worst, ratios.min(), ratios.max()


@check("PSA", "Eq. 33a")
def _():
    """its pi is the probability of a flip

    off by {:.0f}; with (1 - x) / 2 within {:.0e}
    """
    a, x = torch.linspace(-2, 2, 9), torch.tensor([[-1.0], [1.0]])
    printed, mended = (
        largest(1 - ((1 + sign * x) / 2 + x * F(a)) - F(-x * a)) for sign in (1, -1)
    )
    return printed < EXACT, printed, mended


@check("PSA", "Eq. 50")
def _():
    """the ratio is the distribution of flipped logits

    it is 1 minus that, within {:.0e}: both exponents have the wrong sign
    """
    a, w = torch.linspace(-2, 2, 9)[:, None], torch.linspace(-1, 1, 5)
    right = torch.sigmoid(a - 2 * w)  # the paper's noise here: sigmoid(a)
    printed = 1 / (1 + torch.exp(a) * torch.exp(-2 * w))
    error = largest(1 - printed - right)
    return largest(printed - right) < EXACT, error


# Stochastic generative hashing

CODES = torch.tensor(list(itertools.product([0.0, 1.0], repeat=3)), dtype=torch.float64)
RHO2 = 4.0


def sgh_case(seed, d=6, n_bits=3, n_rows=40):
    generator = torch.Generator().manual_seed(seed)
    mix = randn(generator, 3, d)
    X = randn(generator, n_rows, 3) @ mix
    W = randn(generator, d, n_bits) / d**0.5
    return X, [W, torch.zeros(n_bits), randn(generator, n_bits, d)], generator


def sgh_gradients(X, parameters):
    """Return the gradient of the mean free energy in W, b and U."""
    W, b, U = parameters = [v.clone().requires_grad_() for v in parameters]
    a = X @ W + b
    p = torch.sigmoid(a)
    error = (X - p @ U).square().sum(dim=1) + (p * (1 - p)) @ U.square().sum(dim=1)
    energy = error / (2 * RHO2) + (p * a - torch.nn.functional.softplus(a)).sum(dim=1)
    return torch.autograd.grad(energy.mean(), parameters)


def sgh_estimate(X, parameters, values, linear, weights=1.0):
    """Return its estimate by values of the bits, a weighted sum over rows."""
    W, b, U = parameters
    a = X @ W + b
    e = X - values @ U
    difference = -e @ U.T + (0 if linear else (0.5 - values) * U.square().sum(dim=1))
    g = weights * (difference / RHO2 + a) * torch.sigmoid(a) * torch.sigmoid(-a)
    return X.T @ g, g.sum(dim=0), -(weights * values).T @ e / RHO2


def sgh_expected(X, parameters, linear):
    """Return the expectation of the estimate over all codes, the mean of the rows."""
    p = torch.sigmoid(X @ parameters[0] + parameters[1])[:, None]
    weights = torch.where(CODES > 0, p, 1 - p).prod(dim=2).reshape(-1, 1) / len(X)
    rows = X.repeat_interleave(len(CODES), dim=0)
    return sgh_estimate(rows, parameters, CODES.repeat(len(X), 1), linear, weights)


def inner(first, second):
    return sum(float((v * w).sum()) for v, w in zip(first, second, strict=True))


def apart(first, second):
    return [v - w for v, w in zip(first, second, strict=True)]


@check("SGH", "Lemma 3")
def _():
    """the distributional derivative is the gradient

    bias {:.0e}; bias of its linear approximation (14) {:.2f} to {:.2f}
    """
    cases = [sgh_case(seed, n_rows=1)[:2] for seed in SEEDS]
    full, linear = (
        [relative(sgh_expected(*it, how)[0], sgh_gradients(*it)[0]) for it in cases]
        for how in (False, True)
    )
    return max(full) < EXACT, max(full), min(linear), max(linear)


@check("SGH", "Section E.2")
def _():
    """pairs agree with the probability sigmoid(h_i h_j)

    with codes of 0 and 1, it is at least {:.1f}: no pair is ever unlikely
    """
    least = float(torch.sigmoid(CODES @ CODES.T).min())
    return least < 0.5, least


@check("SGH", "Eq. 20")
def _():
    """coding with -1 and +1 has a similar approximation

    it needs a factor of {:.2f}, because from -1 to +1 is a distance of two
    """

    def ratio(generator):
        U, x = 1e-4 * randn(generator, 6), randn(generator, 6)  # where it is good
        low, high = ((x - f * U).square().sum() / 2 for f in (-1, 1))
        return float((high - low) / ((U - x) @ U))

    mean = over_seeds(ratio).mean()
    return abs(mean - 1) < 0.01, mean


def descend(seed, steps, linear):
    """Train by steps of size 1 / root(steps) of single rows, whose bits are drawn once.

    Return the iterates, the mean square of their exact gradients, and the largest
    square of the steps' gradients.
    """
    X, parameters, generator = sgh_case(seed)
    path, squares = [], []
    for _ in range(steps):
        path.append(parameters)
        row = X[torch.randint(len(X), (1,), generator=generator)]
        p = torch.sigmoid(row @ parameters[0] + parameters[1])
        h = (torch.rand(p.shape, generator=generator) < p).double()
        g = sgh_estimate(row, parameters, h, linear)
        squares.append(inner(g, g))
        parameters = apart(parameters, [dv / steps**0.5 for dv in g])
    exact = [sgh_gradients(X, iterate) for iterate in path[:: max(1, steps // 200)]]
    return path, np.mean([inner(g, g) for g in exact]), max(squares)


LENGTHS = (50, 200, 800, 3200)


@check("SGH", "Theorem 5")
def _():
    """a random iterate's squared gradient is O(1 / root t)

    {} after {} steps, exponent {:.2f}, 3 seeds
    """
    found = [np.mean([descend(s, T, False)[1] for s in SEEDS]) for T in LENGTHS]
    rate, shown = slope(LENGTHS, found), listed(found, ".3g")
    return rate < -0.4, shown, LENGTHS, rate


@check("SGH", "Theorem 9")
def _():
    """with the biased gradient (theta - theta*) g is O(1 / root t)

    {} after {} steps, 3 seeds. This does not imply stationarity: the squared exact
    gradient is {:.2g}
    """
    sides, norms, T = [], [], LENGTHS[-1]
    for seed in SEEDS:
        path, norm, square = descend(seed, T, True)
        X, best, _ = sgh_case(seed)
        for _ in range(3000):
            best = apart(best, [0.1 * dv for dv in sgh_gradients(X, best)])
        left = [inner(apart(it, best), sgh_expected(X, it, True)) for it in path[::100]]
        start = apart(path[0], best)
        sides.append((np.mean(left), (inner(start, start) + square) / (2 * T**0.5)))
        norms.append(norm)
    shown = ", ".join(f"{left:.2f} <= {right:.2f}" for left, right in sides)
    return all(left <= right for left, right in sides), shown, T, np.mean(norms)


@check("SGH", "Prop. 10")
def _():
    """reconstruction error bounds the error of inner products

    error divided by bound: {:.2f} on average and {:.2f} at most; random rows are far
    below the bound
    """

    def ratio(generator):
        x, y, decoded = randn(generator, 3, 1000, 20)
        error = ((y - decoded) * x).sum(dim=1).abs()
        return (error / (x.norm(dim=1) * (y - decoded).norm(dim=1))).numpy()

    ratios = over_seeds(ratio)
    return ratios.max() <= 1, ratios.mean(), ratios.max()


# Correlated posteriors


@check("CorrSH", "Theorem 0.1")
def _():
    """the objective has the unbiased estimate (10)

    equal within {:.0e}, for two samples and all states
    """

    def error(generator):
        r = randn(generator, 3, 2)  # three logits, equally likely
        s = (states(2) + 1) / 2
        q = torch.where(s[:, None] > 0, torch.sigmoid(r), torch.sigmoid(-r)).prod(-1)
        energy, likelihood = randn(generator, 2, 4)
        likelihood, marginal = likelihood - 2 * math.log(2), q.mean(dim=1)
        first, second = marginal @ (likelihood + energy), 0.0
        for pair in itertools.product(range(3), repeat=2):
            mixture, chosen = q[:, pair].mean(dim=1), r[list(pair)]
            softplus = torch.nn.functional.softplus(chosen).sum(dim=1)
            log_h = torch.logsumexp(s @ chosen.T - softplus - math.log(2), dim=1)
            second += mixture @ (mixture.log() + energy) / 9
            second += (marginal @ likelihood - mixture @ log_h) / 9
        return largest(first - second)

    return only_rounding(over_seeds(error))


# DualHash


def prox(x, step, weight):
    return np.clip(np.sign(x) * np.maximum(np.abs(x) - step, 0), -weight, weight)


GRID = np.linspace(-4, 4, 80_001)
W_PENALTY = np.abs(np.abs(GRID) - 1)
RHO, WEIGHT, TAU, SIGMA = 1.0, 0.5, 0.8, 0.5


@check("DualHash", "Conjugate")
def _():
    """the conjugate of the W penalty is abs(v), up to lambda

    within {:.0e} of the supremum on a grid
    """
    worst = max(
        abs((v * GRID - weight * W_PENALTY).max() - abs(v))
        for weight in (0.05, 0.5, 2.0)
        for v in np.linspace(-weight, weight, 21)
    )
    return worst < 1e-4, worst


@check("DualHash", "Eq. IV.1")
def _():
    """gives the proximal map of the conjugate

    within {:.0e}, the step of the grid
    """
    worst, size = 0.0, np.abs(GRID)
    for weight, step in itertools.product((0.05, 0.5, 2.0), (0.1, 1.0)):
        conjugate = np.where(size <= weight, size, np.inf)
        for x in np.linspace(-3, 3, 25):
            best = GRID[(step * conjugate + (GRID - x) ** 2 / 2).argmin()]
            worst = max(worst, abs(best - prox(x, step, weight)))
    return worst < 2e-4, worst


@check("DualHash", "Section IV")
def _():
    """the dual problem has the W penalty of the primal

    between -1 and +1 the conjugate of the conjugate is {:.0f}: the penalty there, up to
    {:g}, is lost
    """
    v, u = np.linspace(-WEIGHT, WEIGHT, 2001), np.linspace(-1, 1, 201)
    back = (u[:, None] * v - np.abs(v)).max(axis=1)
    error = np.abs(back - WEIGHT * np.abs(np.abs(u) - 1)).max()
    return error < 1e-3, back.max(), WEIGHT


@check("DualHash", "Section V, Lemma 1")
def _():
    """optima of (P) are critical points of L

    for D = {:g} the optimum is u = {:.1f}, so v = {:.1f}, and L requires u = {:g} or
    beyond; L is critical at u = {:g}, v = 0. The proof needs a duality gap of 0
    """
    D = 0.3  # one unit, whose output is fixed
    u = GRID[(RHO * (GRID - D) ** 2 / 2 + WEIGHT * W_PENALTY).argmin()]
    v = -RHO * (u - D)  # by the condition in u
    return abs(u - np.sign(v)) < 1e-3, D, u, v, np.sign(v), D


def small_problem(seed, n=60, d=4, n_bits=2):
    generator = np.random.default_rng(seed)
    X = generator.normal(size=(n, d))
    y = (X[:, 0] + 0.3 * generator.normal(size=n) > 0).astype(float)
    S = (y[:, None] == y).astype(float)
    return X, S, generator.normal(size=(d, n_bits)) / 2, generator


def primal_gradient(X, S, W, u, rows, partners):
    """Return the gradient of pairs and of the penalty in W, on some rows."""
    D, E = np.tanh(X[rows] @ W), np.tanh(X[partners] @ W)
    rest = (expit((D * E).sum(axis=1)) - S[rows, partners])[:, None]
    to_D = rest * E + RHO * (D - u[rows])
    slope_D = X[rows].T @ (to_D * (1 - D**2))
    return (slope_D + X[partners].T @ (rest * D * (1 - E**2))) / len(rows)


def stationarity(X, S, W, u, v):
    """Return the squared distance of 0 to the subdifferential of the Lagrangian."""
    D = np.tanh(X @ W)
    rest = (expit(D @ D.T) - S) / len(X) * 2
    in_W = X.T @ ((rest @ D + RHO * (D - u)) * (1 - D**2)) / len(X)
    in_u = (RHO * (u - D) + v) / len(X)
    sign = np.where(v == 0, np.clip(u, -1, 1), np.sign(v))
    at_end = (np.abs(v) == WEIGHT) & (u * np.sign(v) > 1)
    in_v = np.where(at_end, 0, u - sign) / len(X)
    return sum(float((it**2).sum()) for it in (in_W, in_u, in_v))


def dualhash(seed, steps, batch, rate, forgetting=None, first=1):
    """Run DualHash-StoM, or StoRM; return the mean squared stationarity of iterates."""
    X, S, W, generator = small_problem(seed)
    u, v, before = np.tanh(X @ W) * 1.5, np.zeros((len(X), 2)), W
    u_before, estimate, found = u, None, []
    for step in range(steps):
        size = first if forgetting and step == 0 else batch
        pairs = generator.integers(len(X), size=(2, size))
        if forgetting:  # both gradients of one batch
            g = primal_gradient(X, S, W, u, *pairs)
            if estimate is not None:
                old = primal_gradient(X, S, before, u_before, *pairs)
                g = g + (1 - forgetting) * (estimate - old)
            estimate, before, W = g, W, W - rate * g
        else:  # heavy ball with look-ahead
            ahead = W + 0.5 * (W - before)
            before, W = W, ahead - rate * primal_gradient(X, S, ahead, u, *pairs)
        u_before = u
        u = u - TAU * (RHO * (u - np.tanh(X @ W)) + v)
        v = prox(v + SIGMA * (2 * u - u_before), SIGMA, WEIGHT)
        if step % max(1, steps // 100) == 0:
            found.append(stationarity(X, S, W, u, v))
    return np.mean(found)


@check("DualHash", "Theorem 1")
def _():
    """StoM: stationary within eps after O(eps^-4) gradients

    mean square {}: exponent {:.2f} in the number of gradients, claimed is -0.5; step
    sizes chosen among a few
    """
    lengths = (16, 64, 256, 1024)  # as many steps as rows in a batch
    found = [np.mean([dualhash(s, K, K, 1.0) for s in SEEDS]) for K in lengths]
    rate = slope([K * K for K in lengths], found)
    return rate < -0.4, listed(found, ".1e"), rate


@check("DualHash", "Theorem 2", "in part")
def _():
    """StoRM with a large first batch: after O(eps^-3)

    mean square {} after {} steps: exponent {:.2f}, claimed is -0.67; step sizes chosen
    among a few
    """
    lengths, found = (64, 512, 4096), []
    for K in lengths:
        root = K ** (1 / 3)
        setting = 1, 2 / root, min(1, 2 / root**2), round(4 * root)
        found.append(np.mean([dualhash(seed, K, *setting) for seed in SEEDS]))
    rate = slope(lengths, found)
    return rate < -0.55, listed(found, ".1e"), lengths, rate


def main():
    arguments = options(__doc__, only=[""]).parse_args()
    torch.set_num_threads(1)
    torch.set_default_dtype(torch.float64)
    tables = {}
    for paper, checks in CHECKS.items():
        chosen = [it for it in checks if any(word in it for word in arguments.only)]
        table = Table("number | claim | verdict | measured")
        if chosen:
            tables[paper.lower()] = table.printed()
        for number in chosen:
            function, claim, text, otherwise = checks[number]
            holds, *values = function()
            verdict = "holds" if holds else otherwise
            table.add(number, claim, verdict, text.format(*values))
    save(arguments.output, tables, seeds=SEEDS)


if __name__ == "__main__":
    main()
