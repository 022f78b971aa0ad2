"""The binary autoencoder, trained by the method of auxiliary coordinates."""

from numbers import Real
from typing import Annotated

import numpy as np
from scipy.optimize import minimize

from skhash.base import BaseHasher, LinearLogitsMixin
from skhash.linear._pca import PCAHash
from skhash.numerics._projection import check_enough_columns, column_means
from skhash.persistence.schema import Plain, wholes
from skhash.quantization._codebook import (
    LinearDecoderMixin,
    fit_codebook,
    squared_errors,
)
from skhash.quantization._descent import BlockDescent, enumerate_codes
from skhash.utils._sklearn import Interval
from skhash.utils.chunks import dense_chunks
from skhash.utils.lazy import torch
from skhash.utils.parameters import Count, Positive, ProperShare, with_parameters
from skhash.utils.torch import resolve_device, threads_that_pay

# Up to 10 bits, trying all codes of a row costs about as much as descent.
MAX_EXACT_BITS = 10
SVM_STEPS = 20


@with_parameters(kw_only=True)
class BinaryAutoencoderHash(LinearDecoderMixin, LinearLogitsMixin, BaseHasher):
    r"""Binary autoencoder: a linear hash and a linear decoder, without relaxation.

    It minimizes the reconstruction error ``sum_i |x_i - f(h(x_i))|^2`` over hash
    functions ``h(x) = 1[x W + b > 0]`` and linear decoders f (Carreira-Perpinan and
    Raziperchikolaei, 2015). No gradient passes through the step function, so each row
    gets a separate code z, its auxiliary coordinates, which a penalty of growing weight
    ties to the hash:

    .. math::

        \sum_i |x_i - f(z_i)|^2 + \mu |z_i - h(x_i)|^2, \quad z_i \in \{0, 1\}^l

    Training alternates between the codes, row by row (Z step), and the functions (W
    step): f is the least-squares fit to the codes, and each bit of h is predicted from
    x by a linear support vector machine. It ends when the hash reproduces the codes and
    the Z step does not change them.

    Parameters
    ----------
    n_bits : int, default=64
        Number of bits per code, at most ``min(n_samples, n_features)``.
    penalty : float, default=0.01
        Initial weight mu of the penalty, in units of the data's total variance per bit.
    penalty_growth : float, default=2.0
        Factor by which the weight of the penalty grows after each iteration.
    hinge_weight : float, default=0.01
        Weight of the errors of the support vector machines, the `C` of
        `sklearn.svm.LinearSVC`, on data of mean variance 1.
    max_iter : int, default=20
        Maximum number of iterations.
    validation_fraction : float or None, default=None
        Share of the rows to hold out. The result is the iterate with the lowest
        reconstruction error on these rows (or on all rows, if None), the start
        included.
    normalize : bool, default=False
        Whether to scale vectors to unit length first, so that codes follow cosine
        similarity. `transform` does the same, so pass vectors as they are.
    device : str, default="auto"
        Where the support vector machines are fitted, and where to encode: "auto",
        "cpu", "cuda", "cuda:1" or "mps".
    random_state : int, RandomState instance or None, default=None
        Seed for the held-out rows, and for the iterative solver that finds the
        principal axes of data with more than 4096 columns.

    Attributes
    ----------
    components_ : ndarray of shape (n_bits, n_features), float32
        Hash directions, one per row: W transposed.
    intercept_ : ndarray of shape (n_bits,), float32
        Intercepts b, for rows minus the mean.
    mean_ : ndarray of shape (n_features,), float64
        Mean of the training data.
    codebook_ : ndarray of shape (n_bits, n_features), float32
        Vector that each bit of value 1 adds to the decoded vector.
    offset_ : ndarray of shape (n_features,), float64
        Decoded vector of the code of all zeros.
    objective_ : ndarray of shape (n_iterations, 2), float64
        Penalized objective before and after each iteration, at that iteration's weight:
        a mean over rows, for data scaled to mean variance 1. No iteration increases it.
    errors_ : ndarray of shape (n_iterations + 1,), float64
        Reconstruction error of the hash at the start and after each iteration, in the
        same unit.
    n_iter_ : int
        Number of iterations.
    n_features_in_ : int
        Number of columns seen in `fit`.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Names of the columns. Defined only if `X` has column names that are all strings.

    See Also
    --------
    skhash.SGHEncoder : A stochastic model of the same form, trained by gradients.
    skhash.PCAHash : The initial codes.

    Notes
    -----
    For up to 10 bits, the Z step tries all codes of a row. For more, it flips one bit
    at a time, starting from the current code, until no flip helps.

    The hinge loss is squared, which makes the support vector machines smooth. One
    L-BFGS run fits those of all bits, starting from the previous hash. A bit gets its
    new hyperplane only if that predicts more rows correctly, because the penalty counts
    errors, not hinge losses.

    `fit` makes the rows dense, in float32.

    References
    ----------
    M. A. Carreira-Perpinan and R. Raziperchikolaei, "Hashing with binary autoencoders",
    CVPR 2015.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from skhash.linear import BinaryAutoencoderHash
    >>> X, _ = load_digits(return_X_y=True)
    >>> encoder = BinaryAutoencoderHash(n_bits=16, random_state=0).fit(X)
    >>> encoder.transform_packed(X).shape
    (1797, 2)
    >>> bool(encoder.errors_.min() < encoder.errors_[0])
    True
    """

    penalty: Positive = 0.01
    penalty_growth: Annotated[float, Interval(Real, 1, None, closed="left")] = 2.0
    hinge_weight: Positive = 0.01
    max_iter: Count = 20
    validation_fraction: ProperShare | None = None

    _saved = {
        "objective_": Plain(np.ndarray),
        "errors_": Plain(np.ndarray),
        "n_iter_": wholes(low=0),
    }

    def _fit_codes(self, X, y, random_state):
        check_enough_columns(X, self.n_bits, "BinaryAutoencoderHash")
        device = resolve_device(self.device)
        self.mean_ = column_means(X)
        X, scale = standardize(X, self.mean_)
        shown = held_out = X
        if self.validation_fraction is not None:
            order = random_state.permutation(len(X))
            n_held_out = max(1, int(self.validation_fraction * len(X)))
            held_out, shown = X[order[:n_held_out]], X[np.sort(order[n_held_out:])]
        start = PCAHash(self.n_bits, device=self.device, random_state=random_state)
        start.fit(X)
        # `X` has mean 0, so the first hyperplanes pass through the origin.
        coef = np.vstack([start.components_.T, np.zeros(self.n_bits)])
        with threads_that_pay(shown.size * self.n_bits):
            coef, codebook, offset = self._alternate(shown, held_out, coef, device)
        self.components_ = np.ascontiguousarray(coef[:-1].T / scale, dtype=np.float32)
        self.intercept_ = coef[-1].astype(np.float32)
        self.codebook_ = np.float32(scale) * codebook
        self.offset_ = self.mean_ + scale * offset

    def _alternate(self, X, held_out, coef, device):
        """Return the hash functions and the decoder of the best iterate."""
        machines = SupportVectorMachines(X, self.hinge_weight, device)
        penalty = self.penalty * X.shape[1] / self.n_bits
        bits = hashed = machines.predict(coef)
        best = coef, *fit_codebook(X, hashed)
        codebook, offset = best[1:]
        errors = [hash_error(held_out, *best)]
        objective = []
        for _ in range(self.max_iter):
            before = penalized_error(X, bits, codebook, offset, hashed, penalty)
            codes_before = bits
            bits = z_step(X, bits, codebook, offset, hashed, penalty)
            codebook, offset = fit_codebook(X, bits)
            coef = machines.fit(bits, coef)
            hashed = machines.predict(coef)
            after = penalized_error(X, bits, codebook, offset, hashed, penalty)
            objective.append((before, after))
            iterate = coef, *fit_codebook(X, hashed)
            errors.append(hash_error(held_out, *iterate))
            if errors[-1] == min(errors):
                best = iterate
            if np.array_equal(bits, hashed) and np.array_equal(bits, codes_before):
                break  # and no larger weight would change that
            penalty *= self.penalty_growth
        self.objective_, self.errors_ = np.array(objective), np.array(errors)
        self.n_iter_ = len(objective)
        return best


def standardize(X, mean):
    """Return dense rows less the mean, divided by one scale, float32, and the scale."""
    standard = np.empty(X.shape, dtype=np.float32)
    for rows, chunk in dense_chunks(X):
        standard[rows] = chunk - mean
    scale = float(np.sqrt(np.square(standard).mean(dtype=np.float64))) or 1.0
    standard /= np.float32(scale)
    return standard, scale


def z_step(X, bits, codebook, offset, hashed, penalty) -> np.ndarray:
    """Minimize ``|x - offset - z codebook|^2 + penalty |z - h(x)|^2`` over z of rows.

    Parameters
    ----------
    X : ndarray of shape (n_samples, n_features), float32
    bits : ndarray of shape (n_samples, n_bits), uint8
        Where descent starts.
    codebook : ndarray of shape (n_bits, n_features)
    offset : ndarray of shape (n_features,)
    hashed : ndarray of shape (n_samples, n_bits), uint8
        The codes h(x).
    penalty : float

    Returns
    -------
    bits : ndarray of shape (n_samples, n_bits), uint8
    """
    descent, codes = BlockDescent(codebook, bits.shape[1]), bits.copy()
    codewords = codebook.astype(np.float64)
    for rows, chunk in dense_chunks(X):
        centered, near = chunk - offset, hashed[rows]
        if bits.shape[1] <= MAX_EXACT_BITS:
            products = centered @ codewords.T - penalty * (0.5 - near)
            codes[rows] = enumerate_codes(products, codewords @ codewords.T)
        else:
            descent.improve(centered, codes[rows], near, penalty)
    return codes


def penalized_error(X, bits, codebook, offset, hashed, penalty) -> float:
    """Return the objective of `z_step`, a mean over rows."""
    differing = np.count_nonzero(bits != hashed) / len(X)
    return squared_errors(X, bits, codebook, offset).mean() + penalty * differing


def hash_error(X, coef, codebook, offset) -> float:
    """Return the mean reconstruction error of rows by their hash codes."""
    bits = X @ coef[:-1].astype(X.dtype) > -coef[-1]
    return squared_errors(X, bits, codebook, offset).mean()


class SupportVectorMachines:
    """One linear machine for each bit, on the same rows.

    Each minimizes ``|w|^2 / 2 + C sum_i max(0, 1 - s_i w . (x_i, 1))^2`` for the signs
    s of its bit, like `sklearn.svm.LinearSVC`.

    Parameters
    ----------
    X : ndarray of shape (n_samples, n_features), float32
    weight : float
        Of the errors, C.
    device : torch.device
    """

    def __init__(self, X, weight, device):
        ones = np.ones((len(X), 1), dtype=np.float32)
        self.rows = torch.from_numpy(np.hstack([X, ones])).to(device)
        self.weight = weight

    def predict(self, coef) -> np.ndarray:
        """Return the bits of all rows, (n_samples, n_bits), uint8."""
        coef = torch.from_numpy(coef).to(self.rows)
        return (self.rows @ coef > 0).cpu().numpy().astype(np.uint8)

    def fit(self, bits, coef) -> np.ndarray:
        """Return hyperplanes that predict `bits`, each no worse than the one given.

        Parameters
        ----------
        bits : ndarray of shape (n_samples, n_bits), uint8
        coef : ndarray of shape (n_features + 1, n_bits), float64
            Where to start; the last row holds the intercepts.

        Returns
        -------
        coef : ndarray of shape (n_features + 1, n_bits), float64
        """
        fitted = self.minimize_hinge(bits, coef)
        n_wrong, n_wrong_before = (
            np.count_nonzero(self.predict(c) != bits, axis=0) for c in (fitted, coef)
        )
        return np.where(n_wrong < n_wrong_before, fitted, coef)

    def minimize_hinge(self, bits, coef) -> np.ndarray:
        """Return the coefficients after 20 steps of L-BFGS, of all bits at once."""
        signs = torch.from_numpy(bits).to(self.rows).mul_(2).sub_(1)

        def value_and_gradient(flat):
            coef = torch.from_numpy(flat.reshape(shape)).to(self.rows)
            slack = (1 - signs * (self.rows @ coef)).clamp_(min=0)
            value = slack.square().sum(dim=0).mul_(self.weight)
            value += coef.square().sum(dim=0) / 2
            gradient = coef - 2 * self.weight * (self.rows.T @ (slack * signs))
            # A mean, so that the tolerances of L-BFGS mean the same for any data.
            return (
                value.cpu().double().sum().item() / len(bits),
                gradient.cpu().double().numpy().ravel() / len(bits),
            )

        shape = coef.shape
        how = {"method": "L-BFGS-B", "options": {"maxiter": SVM_STEPS}}
        result = minimize(value_and_gradient, coef.ravel(), jac=True, **how)
        return result.x.reshape(shape)
