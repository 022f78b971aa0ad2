"""Encoders that are trained by gradient descent."""

from sklearn.utils.metaestimators import available_if

from skhash.base import BaseHasher, check_magnitude, unchanged_if_it_raises
from skhash.training._estimator import TRAINING_CONSTRAINTS, TrainedMixin, draw_seeds
from skhash.utils._sklearn import fit_context


class BaseNeuralHasher(TrainedMixin, BaseHasher):
    """Base of the encoders that are trained by gradient descent.

    A leaf writes the methods that `TrainedMixin` names, and has the parameters of
    `TRAINING_CONSTRAINTS` and `normalize`.
    """

    _parameter_constraints: dict = {
        **BaseHasher._parameter_constraints,
        **TRAINING_CONSTRAINTS,
    }

    # Whether there is a `partial_fit`.
    _goes_on = True

    @available_if(lambda self: self._goes_on)
    def partial_fit(self, X, y=None):
        """Train for one epoch on these rows, as one part of a stream.

        The first call also builds the model, from its rows alone: let them be some
        thousands, drawn at random. Later calls keep the optimizer's state; on an
        encoder that was loaded from a file, or copied off an accelerator, the optimizer
        starts afresh. Of the parameters `lr` and `batch_size` may change from call to
        call, and `max_epochs` is not used.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Real vectors. Rows are samples.
        y : Ignored
            Not used, present for API consistency by convention.

        Returns
        -------
        self : object
            The encoder. If a later call raises, the encoder is as it was before.

        Raises
        ------
        ValueError
            As `fit`, or if a parameter has changed that the first call built on.
        """
        return self._partial_fit(X, y)

    @unchanged_if_it_raises
    @fit_context(prefer_skip_nested_validation=True)
    def _partial_fit(self, X, y, **known):
        first = not self.__sklearn_is_fitted__()
        if not first and self.n_bits != self._n_features_out:
            raise ValueError(
                f"n_bits={self.n_bits}, but the codes that were learned have "
                f"{self._n_features_out} bits; set it back, or fit anew."
            )
        X = self._prepare(self._validate(X, reset=first))
        if first:
            self._check_rows(X)
        else:
            check_magnitude(X)
        self._go_on(X, self._validate_targets(X, y, is_part=True, **known))
        return self

    def _fit_codes(self, X, y, random_state):
        seeds = draw_seeds(random_state)
        n_epochs = self._resolve_epochs(X.shape[0])
        net = self._make_net(X, y, seeds, n_epochs=n_epochs)
        self._train(net, X, y, n_epochs, history=[])

    def _resolve_epochs(self, n_samples: int) -> int:
        """Return the number of epochs of a fit."""
        return self.max_epochs

    def _training_batch(self, X, y=None):
        """Return the module, and all rows as a batch that it is trained on."""
        from skhash.training._net import whole_batch

        X = self._prepare(self._validate_fitted(X))
        if hasattr(self, "net_"):
            module = self.net_.module_
        else:
            module = self._restore_module()
        device = next(module.parameters()).device
        return module, whole_batch(module, X).to(device)
