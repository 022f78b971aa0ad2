"""The numbered statements of five papers, checked on cases that can be enumerated.

Each check is a short function: it makes random cases from a seed, computes both sides
of what is claimed, mostly as sums over all states, and decides by a rule that stands
beside its figures::

    python examples/benchmarks/propositions.py --output docs/results/propositions.json

It takes two minutes of one core. States are -1 and +1; the noise is logistic with
F(a) = sigmoid(2 a), unless a check says otherwise.
"""

import argparse
import itertools
import math

import numpy as np
import torch
from growing_results import describe, head
from psa_toy import toy
from result_files import Table, add_output, save
from scipy.integrate import quad

from skhash import SBNClassifier
from skhash.noise import Logistic, Triangular, Uniform

CHECKS = {}
SEEDS = (0, 1, 2)
EXACT = 1e-9


def check(paper, number, claim):
    """Register a check under a paper, the number there and what is claimed."""

    def register(function):
        CHECKS[paper, number] = claim, function
        return function

    return register


def verdict(holds, measured, otherwise="does not hold"):
    return "holds" if holds else otherwise, measured


def slope(x, y):
    """Return the exponent of a power law."""
    return float(np.polyfit(np.log(x), np.log(np.abs(y)), 1)[0])


def states(n):
    return torch.tensor(list(itertools.product([-1.0, 1.0], repeat=n)))


def F(a):
    return torch.sigmoid(2 * a)


def density(a):
    return 2 * F(a) * F(-a)


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


def generic(generator, n):
    w, v = torch.randn(2, n, generator=generator)
    return lambda x: torch.sin(x @ w) + torch.exp(0.5 * x @ v / n**0.5)


def generators():
    return [torch.Generator().manual_seed(seed) for seed in SEEDS]


# A network: weights and biases, the last of which are the head's.


def make_network(widths, generator, factor=1.0, bias=1.0):
    sizes = [3, *widths, 2]
    return [
        (
            factor * torch.randn(m, n, generator=generator) / n**0.5,
            bias * torch.randn(m, generator=generator),
        )
        for n, m in itertools.pairwise(sizes)
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
    flipped = x[:, None] - 2 * torch.diag_embed(x)
    df = loss.detach()[:, None] - network_loss(flipped @ W.T + b)
    df = 2 * x * slopes if linear else df
    found = []
    for k in reversed(range(len(layers))):
        a, now = logits[k], layers[k]
        below = layers[k - 1] if k else X0.expand(len(a), -1)
        g = p[:, None] * now * density(a) * df
        found.append(torch.cat([(g.T @ below).flatten(), g.sum(dim=0)]))
        W = network[k][0]
        shift = 2 * W * below[:, None]
        Delta = F(a)[..., None] - F(a[..., None] - shift)
        Delta = density(a)[..., None] * shift if linear else Delta
        df = ((now * df)[:, None] @ Delta)[:, 0]
    return found[::-1]


def biases(network, linear=False):
    pairs = zip(psa_gradients(network, linear), exact_gradients(network), strict=True)
    return [relative(*pair) for pair in pairs]


# Straight-through


@check("ST", "Fig. A.1", "the noises have mean 0 and twice their density at 0 is 1")
def _():
    errors, grid = [], torch.linspace(-30, 30, 600_001)
    for noise in (Logistic(), Uniform(), Triangular()):
        law = noise.cdf(grid)
        middle = len(grid) // 2
        at_0 = (law[middle + 1] - law[middle - 1]) / (grid[2] - grid[0])
        mean = (1 - law[middle:]).sum() - law[:middle].sum()
        errors += [abs(float(2 * at_0 - 1)), abs(float(mean - 0.5)) * 1e-4]
    return verdict(max(errors) < 1e-4, f"within {max(errors):.0e}, three noises")


@check("ST", "Prop. B.1", "ST does not change where noise and logits are mapped alike")
def _():
    a = torch.linspace(-2, 2, 9).requires_grad_()
    mapped = a**3 + a
    (derivative,) = torch.autograd.grad(mapped.sum(), a)
    step = 1e-5  # the density of the mapped noise, by differences of its law
    back = [find_root(m + s * step) for s in (1, -1) for m in mapped.tolist()]
    up, down = torch.tensor(back).reshape(2, -1)
    error = float(
        ((F(up) - F(down)) / (2 * step) * derivative - density(a)).abs().max()
    )
    return verdict(error < 1e-8, f"largest difference {error:.0e}")


def find_root(value):
    """Return a with a^3 + a equal to a value."""
    roots = np.roots([1, 0, 1, -value])
    return float(roots[np.abs(roots.imag).argmin()].real)


@check("ST", "Cor. B.1", "mapped by F, noise is uniform and the slope is the identity")
def _():
    p = F(torch.linspace(-2, 2, 9))
    error = float((F(torch.logit(p) / 2) - p).abs().max())
    return verdict(error < EXACT, f"law of the mapped noise off by {error:.0e}")


@check("ST", "Prop. B.2", "ST is unbiased for multilinear losses")
def _():
    errors = []
    for generator in generators():
        c, a = torch.randn(16, generator=generator), torch.randn(4, generator=generator)
        on = (states(4) > 0).double()  # which units a monomial has

        def loss(x, c=c, on=on):
            return torch.where(on > 0, x[:, None], 1.0).prod(dim=-1) @ c

        exact, st = one_layer(loss, a)
        errors.append(relative(st, exact))
    return verdict(max(errors) < EXACT, f"relative bias {max(errors):.0e}")


@check("ST", "Example 1", "for x^2 the expected ST gradient is 4 F' (2 F - 1), not 0")
def _():
    a = torch.tensor([0.7])
    exact, st = one_layer(lambda x: x.square().sum(dim=1), a)
    right = 4 * density(a) * (2 * F(a) - 1)
    error = float((st - right).abs())
    return verdict(
        error < EXACT, f"{float(st):.3f} where the exact one is {float(exact):.0e}"
    )


@check("ST", "Example 2", "x - sin(2 pi x) has the slope -1 at 0 and 1")
def _():
    found = 1 - 2 * math.pi
    return verdict(
        found == -1,
        f"the slope is {found:.2f}; -1 is that of x - sin(2 pi x) / pi. "
        "The direction is wrong in both",
        "in part",
    )


@check("ST", "Prop. B.3", "the squared error has a multilinear form that mends ST")
def _():
    errors = []
    for generator in generators():
        W = torch.randn(5, 4, generator=generator)
        y, a = (torch.randn(n, generator=generator) for n in (5, 4))

        def plain(x, W=W, y=y):
            return (x @ W.T - y).square().sum(dim=1)

        def mended(x, W=W, plain=plain):
            return plain(x) - (x.square() - 1) @ W.square().sum(dim=0)

        errors.append(float((plain(states(4)) - mended(states(4))).abs().max()))
        errors.append(relative(one_layer(mended, a)[1], one_layer(plain, a)[0]))
    biased = relative(one_layer(plain, a)[1], one_layer(plain, a)[0])
    return verdict(
        max(errors) < EXACT, f"bias {max(errors):.0e}, and {biased:.2f} without it"
    )


def products(first, second, J):
    """Return how many inner products are negative, in logits and in parameters."""
    inside = (first * second).sum(dim=1)
    outside = torch.einsum("ki,kij,kj->k", first, J @ J.mT, second)
    return int((inside < 0).sum()), int((outside < 0).sum())


@check("ST", "Prop. B.4", "ST with another positive slope never turns against ST")
def _():
    n, generator = 10_000, torch.Generator().manual_seed(0)
    g = torch.randn(n, 3, generator=generator)
    J = torch.randn(n, 3, 3, generator=generator)
    one, two = torch.rand(2, n, 3, generator=generator)
    logits, parameters = products(g * one, g * two, J)
    return verdict(
        logits == parameters == 0,
        f"turned in {logits} of {n} cases by logits, in {parameters} by parameters "
        "behind a linear map",
        "in part",
    )


def quadratic_cases(n, size=3):
    """Return expected and own slopes of random quadratic losses, and Lipschitz bounds.

    The slope of unit i is c_i + A_i x; its bounds are in x_i alone, and in all units.
    """
    generator = torch.Generator().manual_seed(0)
    A = torch.randn(n, size, size, generator=generator)
    A = (A + A.mT) / 2
    c, a = (2 * torch.randn(n, size, generator=generator) for _ in range(2))
    m, x = 2 * F(a) - 1, torch.sign(a)
    own = torch.diagonal(A, dim1=1, dim2=2)
    g, at = c + (A @ m[..., None])[..., 0], c + (A @ x[..., None])[..., 0]
    likeliest = F(a.abs()).prod(dim=1, keepdim=True)
    true = 2 * (g - own * m)
    return {
        **{"g": g, "at": at, "true": true, "p": likeliest, "a": a},
        "own": own.abs(),
        "all": A.abs().sum(dim=2),
    }


def count_turned(first, second, condition, a):
    """Return how many cases fulfil a condition, and turn in logits and parameters."""
    chosen = condition.all(dim=1)
    slopes = density(a[chosen])
    J = torch.randn(len(slopes), 3, 3, generator=torch.Generator().manual_seed(1))
    pair = first[chosen] * slopes, second[chosen] * slopes
    return int(chosen.sum()), *products(*pair, J)


@check(
    "ST",
    "Prop. B.5",
    "where E g exceeds its Lipschitz constant in size, ST ascends",
)
def _():
    case = quadratic_cases(100_000)
    n, logits, parameters = count_turned(
        case["g"], case["true"], case["g"].abs() > case["own"], case["a"]
    )
    return verdict(
        logits == parameters == 0,
        f"of {n} cases {logits} turn by logits, {parameters} by parameters",
        "in part",
    )


@check("ST", "Prop. B.6", "Lipschitz constants fall as one over the root of the units")
def _():
    sizes, found = [16, 64, 256, 1024], []
    for n in sizes:
        values = []
        for seed in range(200):
            generator = torch.Generator().manual_seed(seed)
            W = torch.randn(3, n, generator=generator) / n**0.5
            x, y = 2 * torch.randint(2, (2, n), generator=generator) - 1.0
            difference = torch.tanh(W @ x) - torch.tanh(W @ y)
            values.append(float((W.T @ difference).abs().mean()))
        found.append(np.mean(values))
    rate = slope(sizes, found)
    return verdict(abs(rate + 0.5) < 0.1, f"exponent {rate:.2f}, 200 seeds a size")


@check("ST", "Cor. B.2", "with more units the bias of ST falls, at the start")
def _():
    sizes, found = [2, 4, 8, 12], []
    for n in sizes:
        errors = []
        for seed in range(50):
            generator = torch.Generator().manual_seed(seed)
            W = torch.randn(3, n, generator=generator) / n**0.5

            def loss(x, W=W):
                return torch.logsumexp(2 * x @ W.T, dim=1) - 2 * x @ W[0]

            exact, st = one_layer(loss, 0.5 * torch.randn(n, generator=generator))
            errors.append(relative(st, exact))
        found.append(float(np.median(errors)))
    shown = " ".join(f"{it:.3f}" for it in found)
    return verdict(
        np.all(np.diff(found) < 0), f"relative bias {shown} with {sizes} units"
    )


def deterministic(number, factor):
    case = quadratic_cases(100_000)
    second = case["g"] if factor == 0 else case["true"]
    counts = {}
    for bound in ("own", "all"):
        least = (2 * (1 - case["p"]) + factor) * case[bound]
        counts[bound] = count_turned(
            case["at"], second, case["at"].abs() >= least, case["a"]
        )
    n, *turned = counts["all"]
    m, own, _ = counts["own"]
    return verdict(
        own == turned[0] == turned[1] == 0,
        f"of {n} cases {turned[0]} turn by logits and {turned[1]} by parameters where "
        f"the constant is that of all units; {own} of {m} by logits where it is that "
        "of the unit alone",
        "in part",
    )


@check("ST", "Prop. B.7", "surer than its Lipschitz constant, det_st agrees with ST")
def _():
    return deterministic("B.7", 0)


@check("ST", "Prop. B.8", "surer still, det_st agrees with the gradient")
def _():
    return deterministic("B.8", 1)


LAWS = {
    "logistic": (lambda e: 1 / (1 + math.exp(-e)), lambda p: math.log(p / (1 - p))),
    "uniform": (lambda e: min(max((e + 1) / 2, 0), 1), lambda p: 2 * p - 1),
}


@check("ST", "Prop. 1", "steps of latent weights are mirror descent in probabilities")
def _():
    generator = np.random.default_rng(0)
    residuals = {name: 0.0 for name in LAWS}
    for name, (law, inverse) in LAWS.items():
        for eta, g in generator.uniform(-0.9, 0.9, (100, 2)):
            after = law(eta - 0.5 * g)
            residual = abs(0.5 * g + inverse(after) - inverse(law(eta)))
            residuals[name] = max(residuals[name], residual)
    return verdict(
        residuals["logistic"] < EXACT,
        f"stationary within {residuals['logistic']:.0e}; of uniform noise, which is "
        f"not strictly monotone, {residuals['uniform']:.2f}: there weights are clipped",
    )


@check("ST", "Prop. 2", "latent decay is a step of variational Bayes")
def _():
    eta, g, weight, differences = 1.3, 0.7, 0.4, []
    sizes = [0.1, 0.05, 0.025]
    for eps in sizes:
        right = (eta - eps * g) / (1 + eps * weight)  # logistic noise: KL is linear
        differences.append(eta - eps * (g + weight * eta) - right)
        p = 1 / (1 + math.exp(-right))
        residual = eps * g + eps * weight * math.log(p / (1 - p)) + right - eta
        assert abs(residual) < EXACT
    rate = slope(sizes, differences)
    return verdict(
        True,
        "exact for logistic noise as a division by 1 + eps lambda; subtracting the "
        f"decay differs by order {rate:.1f} of eps. Other noises have no such form",
    )


def gumbel_mean(slope_of_loss, eta, tau):
    """Return the expectation of the Gumbel-softmax gradient, unit logistic noise."""

    def integrand(u):  # v is the sigmoid of u
        v = 1 / (1 + math.exp(-u))
        z = eta - tau * u
        return slope_of_loss(v) * v * (1 - v) / (2 + 2 * math.cosh(z))

    return quad(integrand, -40, 40, limit=400, epsabs=1e-13)[0]


@check("ST", "Prop. E.1", "Gumbel-softmax is unbiased as tau -> 0, with bias O(tau)")
def _():
    eta, taus = 0.7, [0.02, 0.01, 0.005]
    p = 1 / (2 + 2 * math.cosh(eta))
    rates = []
    for slope_of_loss in (lambda v: 1.0, lambda v: 3 * v * v):  # both rise by 1
        errors = [gumbel_mean(slope_of_loss, eta, tau) - p for tau in taus]
        rates.append(slope(taus, errors))
    return verdict(
        rates[1] > 0.9,
        f"order {rates[1]:.1f} for a cubic loss, {rates[0]:.1f} for a linear one",
    )


@check("ST", "Prop. E.2", "at a given draw its gradient is as exp(-abs(x) / tau) / tau")
def _():
    x = 0.8
    ratios = [
        math.exp(-x / tau) / tau / (1 / (2 + 2 * math.cosh(x / tau)) / tau)
        for tau in (0.1, 0.05, 0.025)
    ]
    return verdict(abs(ratios[-1] - 1) < 1e-3, f"ratio to that rate {ratios[-1]:.4f}")


@check("ST", "Prop. E.3", "a gradient above eps has a probability of O(tau log 1/eps)")
def _():
    eta, eps, ratios = 0.7, 0.01, []
    p = 1 / (2 + 2 * math.cosh(eta))
    for tau in (1e-2, 1e-4, 1e-6):
        root = math.sqrt(1 - 4 * tau * eps)
        q = 2 * math.log((1 + root) / math.sqrt(4 * tau * eps))
        cdf = [1 / (1 + math.exp(-eta - s * tau * q)) for s in (1, -1)]
        ratios.append((cdf[0] - cdf[1]) / (p * tau * math.log(1 / eps)))
    shown = " ".join(f"{it:.1f}" for it in ratios)
    return verdict(
        max(ratios) < 3,
        f"ratio to that {shown} at tau 1e-2, 1e-4, 1e-6: it is "
        "2 p tau log(1 / (tau eps)), as the slope has the factor 1 / tau",
        "in part",
    )


@check("ST", "Prop. E.4", "its variance grows as 1 / tau")
def _():
    eta, taus, found = 0.7, [0.1, 0.05, 0.025], []
    for tau in taus:

        def integrand(u, tau=tau):
            v = 1 / (1 + math.exp(-u))
            return (v * (1 - v)) ** 2 / tau / (2 + 2 * math.cosh(eta - tau * u))

        second = quad(integrand, -40, 40, limit=400)[0]
        found.append(second - gumbel_mean(lambda v: 1.0, eta, tau) ** 2)
    rate = slope(taus, found)
    return verdict(abs(rate + 1) < 0.15, f"exponent {rate:.2f}")


@check("ST", "App. E, V", "straight-through Gumbel-softmax halves a linear gradient")
def _():
    ratio = gumbel_mean(lambda v: 1.0, 0.7, 1e-3) * (2 + 2 * math.cosh(0.7))
    return verdict(
        abs(ratio - 0.5) < 0.01,
        f"ratio to the gradient {ratio:.4f}: the halves of the two states are added",
    )


def toy_regression():
    generator = np.random.default_rng(0)
    X = generator.normal(size=(50, 5))
    y = X @ np.array([1, -1, 1, 1, -1]) + 0.1 * generator.normal(size=50)
    return X, lambda w: X.T @ (X @ w - y) / len(X)


def bayesbinn(tau, n_rows, eta, steps=300, rate=0.1, published=True):
    """Return the signs of weights after each step of BayesBiNN, or of its limit."""
    _, gradient = toy_regression()
    generator, signs = np.random.default_rng(1), []
    for _ in range(steps):
        z = 0.5 * generator.logistic(size=len(eta))
        w = np.tanh((eta - z) / tau) if published else np.sign(eta)
        s = n_rows / tau
        if published:
            s *= (1 - w**2 + 1e-10) / (1 - np.tanh(eta) ** 2 + 1e-10)
        eta = (1 - rate) * eta - rate * s * gradient(w)
        signs.append(np.sign(eta))
    return np.array(signs)


START = np.random.default_rng(2).uniform(-10, 10, 5)


@check("ST", "Prop. F.1", "BayesBiNN at tau = 1e-10 is identity ST without noise")
def _():
    shares = []
    for tau in (1e-10, 1e-2):
        pair = [bayesbinn(tau, 50_000, START, published=it) for it in (True, False)]
        shares.append(float((pair[0] == pair[1]).all(axis=1).mean()))
    return verdict(
        shares[0] == 1,
        f"all signs of five weights equal in {shares[0]:.0%} of 300 steps, at "
        f"tau = 1e-2 in {shares[1]:.0%}",
        "in part",
    )


@check("ST", "Prop. F.2", "its result depends neither on tau nor on the number of rows")
def _():
    base = bayesbinn(1e-10, 50_000, START, published=False)
    scaled = bayesbinn(1e-3, 100, 100e3 / 50_000e10 * START, published=False)
    same = bayesbinn(1e-3, 100, START, published=False)
    return verdict(
        (base == scaled).all(),
        f"with a start in the unit of the steps all signs are equal; with the same "
        f"start in {(base == same).all(axis=1).mean():.0%} of 300 steps",
    )


# Path sample-analytic


@check("PSA", "Prop. A.1", "a network without noise is as good in the expected loss")
def _():
    gains, errors = [], []
    for generator in generators():
        network = make_network([3, 3], generator)[:2]
        X = torch.randn(8, 3, generator=generator)
        values = torch.randn(8, 8, generator=generator)  # loss of a row and a state
        Z = torch.logit(torch.rand(20_000, 2, 3, generator=generator)) / 2

        def losses(network, Z, X=X, values=values):
            x = X[None]
            for k, (W, b) in enumerate(network):
                x = torch.where(x @ W.T + b > Z[:, None, k], 1.0, -1.0)
            number = ((x > 0) * torch.tensor([4, 2, 1])).sum(dim=2)
            return values[torch.arange(8), number].mean(dim=1)

        found = losses(network, Z)
        best = Z[found.argmin()]
        s = 1e6
        sure = [(s * W, s * (b - z)) for (W, b), z in zip(network, best, strict=True)]
        gains.append(float(found.mean() - found.min()))
        errors.append(float((losses(sure, Z) - found.min()).abs().max()))
    return verdict(
        min(gains) > 0 and max(errors) == 0,
        f"{min(gains):.2f} to {max(gains):.2f} lower, by scaled weights and biases",
    )


@check("PSA", "Fig. B.1", "a bound of ten samples fits what is ambiguous in the data")
def _():
    X, y = toy(100, 1)
    bound = {"n_train_samples": 10, "objective": "multi_sample"}
    found = np.array(
        [[ambiguity(X, y, seed, kw) for kw in ({}, bound)] for seed in SEEDS]
    )
    losses, spreads = found.mean(axis=0).T
    return verdict(
        (np.diff(found, axis=1)[..., 0] < 0).all() and spreads[1] > spreads[0],
        f"loss of the ensemble {losses[1]:.3f}, by the expected loss {losses[0]:.3f}; "
        f"members differ by {spreads[1]:.2f} and {spreads[0]:.2f}, 3 seeds, 200 epochs",
    )


def ambiguity(X, y, seed, params):
    """Return the loss of an ensemble, and the deviation of its members' probability."""
    torch.set_default_dtype(torch.float32)  # in which networks are trained
    model = SBNClassifier(
        (5, 5, 5),
        noise=Logistic(2.0),
        gradient="psa",
        batch_norm=False,
        init_scale=1.0,
        lr=0.03,
        lr_schedule=None,
        batch_size=50,
        max_epochs=200,
        random_state=seed,
        n_predict_samples=1,
    )
    model.set_params(**params).fit(X, y)
    members = []
    for model.predict_seed_ in range(100):
        members.append(model.predict_proba(X)[np.arange(len(y)), y])
    torch.set_default_dtype(torch.float64)
    return -np.log(np.mean(members, axis=0)).mean(), np.std(members, axis=0).mean()


@check("PSA", "Prop. 1", "derandomizing a layer leaves odd factors; exact but for (11)")
def _():
    exact = [max(biases(make_network([4, 1], g))) for g in generators()]
    wide = [biases(make_network([3, 3], g))[0] for g in generators()]
    return verdict(
        max(exact) < EXACT,
        f"bias {max(exact):.0e} where one unit follows and (11) is exact, "
        f"{np.median(wide):.2f} where three do",
    )


@check("PSA", "Lemma B.1", "differences to flipped units are an unbiased gradient")
def _():
    errors = []
    for generator in generators():
        loss, a = generic(generator, 4), torch.randn(4, generator=generator)
        x = states(4)
        p = F(x * a).prod(dim=1)
        flips = loss(x[:, None] - 2 * torch.diag_embed(x))
        found = p @ (x * density(a) * (loss(x)[:, None] - flips))
        errors.append(relative(found, one_layer(loss, a)[0]))
    return verdict(max(errors) < EXACT, f"relative bias {max(errors):.0e}")


@check("PSA", "Prop. 3", "PSA is unbiased with one unit in all layers but the last")
def _():
    found = {
        widths: max(max(biases(make_network(widths, g))) for g in generators())
        for widths in ((1, 4), (1, 1, 3), (4, 1), (3, 1, 1))
    }
    return verdict(
        max(found[1, 4], found[1, 1, 3]) < EXACT,
        f"bias {found[1, 4]:.2f} with 1-4 units, {found[1, 1, 3]:.2f} with 1-1-3, "
        f"{max(found[4, 1], found[3, 1, 1]):.0e} with 4-1 and 3-1-1: it is all layers "
        "but the first",
    )


@check("PSA", "Prop. 4", "linearized at the path, PSA is straight-through")
def _():
    differences, equal = [], []
    for factor in (1.0, 0.1, 0.01):
        values = []
        for generator in generators():
            network = make_network([3, 3], generator, factor, bias=0.0)
            psa, st = psa_gradients(network)[0], psa_gradients(network, True)[0]
            values.append(relative(psa, st))
            equal.append(relative(straight_through(network), st))
        differences.append(float(np.median(values)))
    shown = " ".join(f"{it:.1g}" for it in differences)
    return verdict(
        max(equal) < EXACT,
        f"within {max(equal):.0e} of automatic differentiation; PSA less ST {shown} "
        "with weights times 1, .1, .01",
    )


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


@check("PSA", "Lemma B.2", "a mean over flips is unbiased and varies less")
def _():
    errors, ratios = [], []
    for seed in range(100):
        generator = torch.Generator().manual_seed(seed)
        g, a = generic(generator, 4), torch.randn(4, generator=generator)
        x = states(4)
        p = F(x * a).prod(dim=1)
        change = g(x[:, None] - 2 * torch.diag_embed(x)) - g(x)[:, None]
        baseline = (change * F(-x * a)).sum(dim=1)
        mean = p @ g(x)
        for gamma in (0.25, 1.0):
            errors.append(float((p @ (g(x) + gamma * baseline) - mean).abs()))
        spread = [p @ (v - mean) ** 2 for v in (g(x) + 0.25 * baseline, g(x))]
        ratios.append(float(spread[0] / spread[1]))
    return verdict(
        max(errors) < EXACT and max(ratios) < 1,
        f"mean off by {max(errors):.0e}; variance at gamma = 1/n {min(ratios):.2f} to "
        f"{max(ratios):.2f} of that without, 100 seeds",
    )


@check("PSA", "Eq. 33a", "its pi is the probability of a flip")
def _():
    a = torch.linspace(-2, 2, 9)
    worst = max(
        float((1 - ((x + 1) / 2 + x * F(a)) - F(-x * a)).abs().max()) for x in (-1, 1)
    )
    error = max(
        float((1 - ((1 - x) / 2 + x * F(a)) - F(-x * a)).abs().max()) for x in (-1, 1)
    )
    return verdict(
        worst < EXACT, f"off by {worst:.0f}; with (1 - x) / 2 within {error:.0e}"
    )


@check("PSA", "Eq. 50", "the ratio is the law of flipped logits")
def _():
    a, w = torch.linspace(-2, 2, 9)[:, None], torch.linspace(-1, 1, 5)
    right = torch.sigmoid(a - 2 * w)  # the paper's noise here: sigmoid(a)
    printed = 1 / (1 + torch.exp(a) * torch.exp(-2 * w))
    error = float((1 - printed - right).abs().max())
    return verdict(
        float((printed - right).abs().max()) < EXACT,
        f"it is 1 less the law, within {error:.0e}: both exponents have the wrong sign",
    )


# Stochastic generative hashing


def sgh_case(seed, d=6, n_bits=3, n_rows=40):
    generator = torch.Generator().manual_seed(seed)
    mix = torch.randn(3, d, generator=generator)
    X = torch.randn(n_rows, 3, generator=generator) @ mix
    parts = torch.randn(d, n_bits, generator=generator) / d**0.5, torch.zeros(n_bits)
    return X, [*parts, torch.randn(n_bits, d, generator=generator)], generator


def sgh_objective(X, parameters, values=None, rho2=4.0):
    """Return the free energy of each row, exact, or at the values of the bits."""
    W, b, U = parameters
    a = X @ W + b
    p = torch.sigmoid(a)
    h = p if values is None else values
    error = (X - h @ U).square().sum(dim=1)
    if values is None:
        error = error + (p * (1 - p)) @ U.square().sum(dim=1)
    return error / (2 * rho2) + (h * a - torch.nn.functional.softplus(a)).sum(dim=1)


def sgh_gradients(X, parameters, values=None, linear=False, rho2=4.0):
    """Return the mean gradient in W, b and U, exact or by one draw of the bits."""
    if values is None:
        parameters = [v.clone().requires_grad_() for v in parameters]
        return torch.autograd.grad(sgh_objective(X, parameters).mean(), parameters)
    W, b, U = parameters
    a = X @ W + b
    e = X - values @ U
    difference = -e @ U.T + (0 if linear else (0.5 - values) * U.square().sum(dim=1))
    g = (difference / rho2 + a) * torch.sigmoid(a) * torch.sigmoid(-a) / len(X)
    return X.T @ g, g.sum(dim=0), -values.T @ e / rho2 / len(X)


@check("SGH", "Lemma 3", "the distributional derivative is the gradient")
def _():
    errors = {linear: [] for linear in (False, True)}
    for seed in SEEDS:
        X, parameters, _ = sgh_case(seed, n_rows=1)
        codes = (states(3) + 1) / 2
        p = torch.sigmoid(X @ parameters[0] + parameters[1])
        weights = torch.where(codes > 0, p, 1 - p).prod(dim=1)
        right = sgh_gradients(X, parameters)[0]
        for linear, found in errors.items():
            parts = [
                w * sgh_gradients(X, parameters, code[None], linear)[0]
                for w, code in zip(weights, codes, strict=True)
            ]
            found.append(relative(sum(parts), right))
    return verdict(
        max(errors[False]) < EXACT,
        f"bias {max(errors[False]):.0e}; of its linear approximation (14) "
        f"{min(errors[True]):.2f} to {max(errors[True]):.2f}",
    )


@check("SGH", "Section E.2", "pairs agree with the probability sigmoid(h_i h_j)")
def _():
    codes = (states(4) + 1) / 2
    least = float(torch.sigmoid(codes @ codes.T).min())
    return verdict(
        least < 0.5,
        f"of codes of 0 and 1 it is at least {least:.1f}: strangers are never unlikely",
    )


@check("SGH", "Eq. 20", "coding by -1 and +1 has a similar approximation")
def _():
    ratios = []
    for generator in generators():
        U, x = (
            torch.randn(1, 6, generator=generator),
            torch.randn(6, generator=generator),
        )
        U = 1e-4 * U  # where the approximation is good

        def loss(f, U=U, x=x):
            return (x - f * U).square().sum() / 2

        f = torch.tensor(1.0, requires_grad=True)
        (slope_at,) = torch.autograd.grad(loss(f), f)
        ratios.append(float((loss(1.0) - loss(-1.0)) / slope_at))
    return verdict(
        abs(np.mean(ratios) - 1) < 0.01,
        f"it needs a factor of {np.mean(ratios):.2f}: from -1 to +1 are two steps",
    )


def descend(seed, steps, linear):
    """Train by steps of size c / root(steps); return iterates and their gradients.

    Rows are drawn singly and bits once. Squared norms are of the exact gradient; the
    last is the mean square of the steps' gradients.
    """
    X, parameters, generator = sgh_case(seed)
    gamma, path, squares = 1 / steps**0.5, [], []
    for _ in range(steps):
        path.append(parameters)
        row = X[torch.randint(len(X), (1,), generator=generator)]
        p = torch.sigmoid(row @ parameters[0] + parameters[1])
        h = (torch.rand(p.shape, generator=generator) < p).double()
        g = sgh_gradients(row, parameters, h, linear)
        squares.append(sum(float(v.square().sum()) for v in g))
        parameters = [v - gamma * dv for v, dv in zip(parameters, g, strict=True)]
    norms = [
        sum(float(g.square().sum()) for g in sgh_gradients(X, iterate))
        for iterate in path[:: max(1, steps // 200)]
    ]
    return X, path, np.mean(norms), gamma, max(squares)


LENGTHS = (50, 200, 800, 3200)


@check("SGH", "Theorem 5", "a random iterate's squared gradient is O(1 / root t)")
def _():
    found = [np.mean([descend(s, T, False)[2] for s in SEEDS]) for T in LENGTHS]
    rate, shown = slope(LENGTHS, found), " ".join(f"{it:.3g}" for it in found)
    return verdict(
        rate < -0.4, f"{shown} after {LENGTHS} steps, exponent {rate:.2f}, 3 seeds"
    )


@check(
    "SGH",
    "Theorem 9",
    "with the biased gradient (theta - theta*) g is O(1 / root t)",
)
def _():
    sides, norms = [], []
    for seed in SEEDS:
        _, path, norm, gamma, square = descend(seed, LENGTHS[-1], True)
        X, best, _ = sgh_case(seed)
        for _ in range(3000):
            steps = sgh_gradients(X, best)
            best = [v - 0.1 * dv for v, dv in zip(best, steps, strict=True)]
        left, codes = 0.0, (states(3) + 1) / 2
        kept = path[::100]
        for iterate in kept:
            g = mean_linear(X, iterate, codes)
            pairs = zip(iterate, best, g, strict=True)
            left += sum(float(((v - w) * dv).sum()) for v, w, dv in pairs) / len(kept)
        start = sum(
            float((v - w).square().sum()) for v, w in zip(path[0], best, strict=True)
        )
        right = (start + gamma**2 * len(path) * square) / (2 * gamma * len(path))
        sides.append((left, right))
        norms.append(norm)
    shown = ", ".join(f"{left:.2f} <= {right:.2f}" for left, right in sides)
    return verdict(
        all(left <= right for left, right in sides),
        f"{shown} after {LENGTHS[-1]} steps, 3 seeds. It says nothing of stationarity: "
        f"the squared exact gradient is {np.mean(norms):.2g}",
    )


def mean_linear(X, parameters, codes):
    """Return the expectation of the linear approximation over all codes."""
    total = [torch.zeros_like(v) for v in parameters]
    for row in X:
        p = torch.sigmoid(row @ parameters[0] + parameters[1])
        weights = torch.where(codes > 0, p, 1 - p).prod(dim=1)
        for weight, code in zip(weights, codes, strict=True):
            g = sgh_gradients(row[None], parameters, code[None], True)
            total = [t + weight * v / len(X) for t, v in zip(total, g, strict=True)]
    return total


@check("SGH", "Prop. 10", "reconstruction error bounds the error of inner products")
def _():
    ratios = []
    for generator in generators():
        x, y, decoded = torch.randn(3, 1000, 20, generator=generator)
        error = ((y - decoded) * x).sum(dim=1).abs()
        ratios.append(error / (x.norm(dim=1) * (y - decoded).norm(dim=1)))
    ratios = torch.cat(ratios)
    return verdict(
        ratios.max() <= 1,
        f"error over bound {ratios.mean():.2f} in the mean and {ratios.max():.2f} at "
        "most: random rows are far below it",
    )


# Correlated posteriors


@check("CorrSH", "Theorem 0.1", "the objective has the unbiased estimate (10)")
def _():
    errors = []
    for seed in SEEDS:
        generator = torch.Generator().manual_seed(seed)
        r = torch.randn(3, 2, generator=generator)  # three logits, equally likely
        s = (states(2) + 1) / 2
        q = torch.where(s[:, None] > 0, torch.sigmoid(r), torch.sigmoid(-r)).prod(-1)
        energy, likelihood = torch.randn(2, 4, generator=generator)
        prior = -2 * math.log(2)
        marginal = q.mean(dim=1)
        first = marginal @ (likelihood + prior + energy)
        second = expected = 0.0
        for pair in itertools.product(range(3), repeat=2):
            mixture = q[:, pair].mean(dim=1)
            second += mixture @ (mixture.log() + energy) / 9
            logits = s @ r[list(pair)].T
            softplus = torch.nn.functional.softplus(r[list(pair)]).sum(dim=1)
            log_h = torch.logsumexp(logits - softplus - math.log(2), dim=1)
            expected += (marginal @ (likelihood + prior) - mixture @ log_h) / 9
        errors.append(float((first - second - expected).abs()))
    return verdict(
        max(errors) < EXACT, f"equal within {max(errors):.0e}, two samples, all states"
    )


# DualHash


def g_star(v, weight):
    return np.where(np.abs(v) <= weight, np.abs(v), np.inf)


def prox(x, step, weight):
    return np.clip(np.sign(x) * np.maximum(np.abs(x) - step, 0), -weight, weight)


GRIDS = np.linspace(-4, 4, 80_001)
RHO, WEIGHT, TAU, SIGMA = 1.0, 0.5, 0.8, 0.5


@check("DualHash", "Conjugate", "that of the W penalty is abs(v), up to lambda")
def _():
    worst = 0.0
    for weight in (0.05, 0.5, 2.0):
        for v in np.linspace(-weight, weight, 21):
            values = v * GRIDS - weight * np.abs(np.abs(GRIDS) - 1)
            worst = max(worst, abs(values.max() - abs(v)))
    return verdict(worst < 1e-4, f"within {worst:.0e} of the supremum on a grid")


@check("DualHash", "Eq. IV.1", "the proximal map of the conjugate")
def _():
    worst = 0.0
    for weight, step in itertools.product((0.05, 0.5, 2.0), (0.1, 1.0)):
        for x in np.linspace(-3, 3, 25):
            values = step * g_star(GRIDS, weight) + (GRIDS - x) ** 2 / 2
            best = GRIDS[values.argmin()]
            worst = max(worst, abs(best - prox(x, step, weight)))
    return verdict(worst < 2e-4, f"within {worst:.0e}, the step of the grid")


@check("DualHash", "Section IV", "the dual problem has the W penalty of the primal")
def _():
    weight = 0.5
    v = np.linspace(-weight, weight, 2001)
    u = np.linspace(-1, 1, 201)
    back = (u[:, None] * v - np.abs(v)).max(axis=1)
    return verdict(
        np.abs(back - weight * np.abs(np.abs(u) - 1)).max() < 1e-3,
        f"between -1 and +1 the conjugate of the conjugate is {back.max():.0f}: the "
        f"penalty there, up to {weight:g}, is lost",
    )


@check("DualHash", "Section V, Lemma 1", "optima of (P) are critical points of L")
def _():
    weight, D = 0.5, 0.3  # one unit, whose output is fixed
    values = RHO * (GRIDS - D) ** 2 / 2 + weight * np.abs(np.abs(GRIDS) - 1)
    u = GRIDS[values.argmin()]
    v = -RHO * (u - D)  # what the condition in u asks for
    return verdict(
        abs(u - np.sign(v)) < 1e-3,
        f"for D = {D:g} the optimum is u = {u:.1f}, so v = {v:.1f}, and L asks for "
        f"u = {np.sign(v):g} or beyond; L is critical at u = {D:g}, v = 0. The proof "
        "needs a duality gap of 0",
    )


def small_problem(seed, n=60, d=4, n_bits=2):
    generator = np.random.default_rng(seed)
    X = generator.normal(size=(n, d))
    y = (X[:, 0] + 0.3 * generator.normal(size=n) > 0).astype(float)
    S = (y[:, None] == y).astype(float)
    return X, S, generator.normal(size=(d, n_bits)) / 2, generator


def primal_gradient(X, S, W, u, rows, partners):
    """Return the gradient of pairs and of the penalty in W, on some rows."""
    D, E = np.tanh(X[rows] @ W), np.tanh(X[partners] @ W)
    rest = (1 / (1 + np.exp(-(D * E).sum(axis=1))) - S[rows, partners])[:, None]
    to_D = rest * E + RHO * (D - u[rows])
    slope_D = X[rows].T @ (to_D * (1 - D**2))
    return (slope_D + X[partners].T @ (rest * D * (1 - E**2))) / len(rows)


def full_gradient(X, S, W, u):
    D = np.tanh(X @ W)
    rest = (1 / (1 + np.exp(-D @ D.T)) - S) / len(X) * 2
    return X.T @ ((rest @ D + RHO * (D - u)) * (1 - D**2)) / len(X)


def dualhash(seed, steps, batch, rate, forgetting=None, first=1):
    """Run DualHash-StoM, or StoRM; return the mean squared stationarity of iterates."""
    X, S, W, generator = small_problem(seed)
    u, v, before = np.tanh(X @ W) * 1.5, np.zeros((len(X), 2)), W
    u_before, estimate, found = u, None, []
    for step in range(steps):
        size = first if forgetting and step == 0 else batch
        rows, partners = generator.integers(len(X), size=(2, size))
        args = u, rows, partners
        if forgetting:  # both gradients of one batch
            g = primal_gradient(X, S, W, *args)
            if estimate is not None:
                old = primal_gradient(X, S, before, u_before, *args[1:])
                g = g + (1 - forgetting) * (estimate - old)
            estimate, before, W = g, W, W - rate * g
        else:  # heavy ball with look-ahead
            ahead = W + 0.5 * (W - before)
            before, W = W, ahead - rate * primal_gradient(X, S, ahead, *args)
        u_before = u
        u = u - TAU * (RHO * (u - np.tanh(X @ W)) + v)
        v = prox(v + SIGMA * (2 * u - u_before), SIGMA, WEIGHT)
        if step % max(1, steps // 100) == 0:
            found.append(stationarity(X, S, W, u, v))
    return np.mean(found)


def stationarity(X, S, W, u, v):
    """Return the squared distance of 0 to the subdifferential of the Lagrangian."""
    in_W = full_gradient(X, S, W, u)
    in_u = (RHO * (u - np.tanh(X @ W)) + v) / len(X)
    sign = np.where(v == 0, np.clip(u, -1, 1), np.sign(v))
    at_end = (np.abs(v) == WEIGHT) & (u * np.sign(v) > 1)
    in_v = np.where(at_end, 0, u - sign) / len(X)
    return sum(float((it**2).sum()) for it in (in_W, in_u, in_v))


@check("DualHash", "Theorem 1", "StoM: stationary within eps by O(eps^-4) gradients")
def _():
    lengths = (16, 64, 256, 1024)  # as many steps as rows in a batch
    found = [np.mean([dualhash(s, K, K, 1.0) for s in SEEDS]) for K in lengths]
    rate = slope([K * K for K in lengths], found)
    shown = " ".join(f"{it:.1e}" for it in found)
    return verdict(
        rate < -0.4,
        f"mean square {shown}: exponent {rate:.2f} of the gradients, -0.5 claimed",
    )


@check("DualHash", "Theorem 2", "StoRM with a large first batch: by O(eps^-3)")
def _():
    lengths, found = (64, 512, 4096), []
    for K in lengths:
        root = K ** (1 / 3)
        runs = [
            dualhash(s, K, 1, 2 / root, min(1, 2 / root**2), round(4 * root))
            for s in SEEDS
        ]
        found.append(np.mean(runs))
    rate = slope(lengths, found)
    shown = " ".join(f"{it:.1e}" for it in found)
    return verdict(
        rate < -0.55,
        f"mean square {shown} after {lengths} steps: exponent {rate:.2f}, where -0.67 "
        "is claimed",
        "in part",
    )


PAPERS = ("SGH", "CorrSH", "ST", "PSA", "DualHash")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", nargs="+", help="words that a number has")
    add_output(parser)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    print(describe(head()))
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    try:
        tables = checked(arguments.only)
    finally:
        torch.set_default_dtype(before)
    save(arguments.output, tables, seeds=SEEDS)


def checked(only):
    """Return the tables of the checks whose number has one of the words, or of all."""
    tables = {}
    columns = dict.fromkeys(("number", "claim", "verdict", "measured"), "")
    for (paper, number), (claim, function) in sorted(
        CHECKS.items(), key=lambda item: PAPERS.index(item[0][0])
    ):
        if not only or any(it in number for it in only):
            name = paper.lower()
            if name not in tables:
                tables[name] = Table(columns).printed()
            tables[name].add(number, claim, *function())
    return tables


if __name__ == "__main__":
    main()
