"""The second phase of training a `StochasticAutoencoderHash`."""

from numbers import Integral

from sklearn.base import BaseEstimator

from skhash.utils._sklearn import HasMethods, Interval
from skhash.utils.strategies import resolved


class Correction(BaseEstimator):
    """Epochs of another gradient, which correct the bias of the one before.

    They start with a fresh optimizer, as in section 5 of Shekhovtsov and Yanush, since
    the moments that one has collected belong to the other gradient. An `lr_schedule`
    starts afresh too, at `lr` and for these epochs; the paper has a fixed step size in
    both phases. `partial_fit` resumes training with this gradient.

    Parameters
    ----------
    gradient : str or gradient estimator, default="arm"
        As that of `StochasticAutoencoderHash`.
    n_samples : int, default=10
        Samples of the estimator, where `gradient` is the name of one that has them.
    n_epochs : int, default=6
        Half as many as the encoder has before it by default, as in the paper.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from skhash import StochasticAutoencoderHash
    >>> from skhash.neural import Correction
    >>> X, _ = load_digits(return_X_y=True)
    >>> encoder = StochasticAutoencoderHash(
    ...     16, correction=Correction(n_epochs=1), max_epochs=2, random_state=0
    ... )
    >>> encoder.fit(X).n_iter_
    3
    """

    _parameter_constraints: dict = {
        "gradient": [str, HasMethods(["surrogate"])],
        "n_samples": [Interval(Integral, 1, None, closed="left")],
        "n_epochs": [Interval(Integral, 1, None, closed="left")],
    }

    def __init__(self, gradient="arm", n_samples=10, n_epochs=6):
        self.gradient = gradient
        self.n_samples = n_samples
        self.n_epochs = n_epochs

    def make_gradient(self):
        """Return a fresh gradient estimator."""
        from skhash.gradients import resolve_gradient

        gradient = resolve_gradient(self.gradient, "correction")
        if isinstance(self.gradient, str) and "n_samples" in gradient.get_params():
            gradient.set_params(n_samples=self.n_samples)
        return gradient


def resolve_correction(correction) -> Correction | None:
    """Return the correction of a gradient's name, a clone of the object, or None."""
    if isinstance(correction, str):
        correction = Correction(correction)
    return correction and resolved(correction, {}, Correction, "correction")
