"""What the supervised neural encoders share: targets, networks, data sets, encoding."""

import copy
import sys
from abc import abstractmethod
from numbers import Integral, Real

import numpy as np
from sklearn.utils import check_consistent_length
from sklearn.utils.validation import check_is_fitted

from skhash.algebra._perceptron import MLPLogitsMixin, check_layer_sizes
from skhash.algebra._projection import column_means
from skhash.algebra._scale import total_scale
from skhash.metrics import class_distances
from skhash.training import TRAINING_CONSTRAINTS, BaseNeuralHasher, arrays_of
from skhash.utils._sklearn import Interval, StrOptions
from skhash.utils.chunks import row_chunks
from skhash.utils.targets import check_shared, encoded_targets
from skhash.utils.torch import inference_device, seeded_globals

# Rows that a network of the user's own encodes at once.
ENCODED_ROWS = 256


class BaseSupervisedHash(MLPLogitsMixin, BaseNeuralHasher):
    """Base of the encoders that learn from labels.

    A leaf has the parameters of `SUPERVISED_CONSTRAINTS` and writes
    `_make_objective(X, rows, training)`, which returns an `Objective` of
    `skhash.losses` for the `Training` it gets; it may write `_optimizer` too.

    The network is a perceptron, which encodes as the other ones do, without torch; or
    what the factory `module` returns, whose weights then are ``weights_``.
    """

    _goes_on = False

    @abstractmethod
    def _make_objective(self, X, rows, training):
        """Return the objective of a fit, a torch module on the CPU."""

    def fit(self, X, y=None):
        """Learn the hash functions.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features), or Dataset
            Real vectors; rows are samples. Or a torch ``Dataset`` with a length, whose
            items are arrays or pairs of an array and a label: it is read batch by
            batch, as it is.
        y : array-like of shape (n_samples,) or (n_samples, n_labels)
            Classes, of any type, or a 0/1 column for each of several labels. May be
            left out for a data set with labels.

        Returns
        -------
        self : object
            The fitted encoder.

        Raises
        ------
        TypeError
            If `module` is a module and not a factory.
        ValueError
            If `X` holds NaN or infinity, `y` is no labels of its rows or one class
            only, or the outputs of `module` are not `n_bits`.
        """
        self._check_module()
        return self._fit(X, y)

    def _check_module(self):
        torch = sys.modules.get("torch")
        if torch is not None and isinstance(self.module, torch.nn.Module):
            raise TypeError(
                f"module={type(self.module).__name__}(...) is a module; give a factory "
                "(n_features, n_bits) -> torch.nn.Module instead, such as a function "
                "or a class, so that every fit starts from new weights."
            )

    def _validate(self, X, *, reset):
        if "torch" not in sys.modules:
            return super()._validate(X, reset=reset)
        from skhash.training._dataset_rows import DatasetRows, is_dataset

        if not is_dataset(X):
            return super()._validate(X, reset=reset)
        rows = DatasetRows(X, self.num_workers)
        if reset:
            self.n_features_in_ = rows.shape[1]
            vars(self).pop("feature_names_in_", None)
        elif rows.shape[1] != self.n_features_in_:
            raise ValueError(
                f"Items of the dataset have {rows.shape[1]} values, but "
                f"{type(self).__name__} is expecting {self.n_features_in_}."
            )
        return rows

    def _prepare(self, X):
        if not _is_lazy(X):
            return super()._prepare(X)
        if self.normalize:
            raise ValueError(
                "normalize=True is not for a Dataset; scale rows in its transform."
            )
        return X

    def _check_rows(self, X):
        if not _is_lazy(X):
            super()._check_rows(X)

    def _warn_of_dead_bits(self, X):
        if not _is_lazy(X):
            super()._warn_of_dead_bits(X)

    def _validate_targets(self, X, y):
        """Return targets as columns of int64 and set ``classes_``."""
        y = X.labels() if y is None and _is_lazy(X) else y
        self.classes_, codes = encoded_targets(y, self)
        check_shared(codes)
        check_consistent_length(X, codes)
        return codes

    def _make_module(self, X, y, rows, device, generator):
        import torch

        from skhash.losses._objective import Training
        from skhash.neural.supervised._module import SupervisedModule

        mean, scale = None, 1.0
        if not _is_lazy(X):
            start = X if rows is None else X[rows]
            mean = column_means(start)
            scale = total_scale(start, mean)
        shape = self.input_shape
        if shape is None and _is_lazy(X):
            shape = X.item_shape
        self.input_shape_ = None if shape is None else [int(size) for size in shape]
        if shape is not None and np.prod(shape) != self.n_features_in_:
            raise ValueError(
                f"input_shape={shape} has {np.prod(shape)} values, but rows have "
                f"{self.n_features_in_} features."
            )
        seed = int(torch.randint(2**31, (), generator=generator))
        if _is_lazy(X):
            X.generator.manual_seed(seed)
        with seeded_globals(seed):
            encoder = self._new_encoder(self.n_bits)
            module = SupervisedModule(encoder, mean, scale)
            _check_outputs(encoder, self.n_features_in_, self.n_bits)
            module.objective = self._make_objective(
                X,
                rows,
                Training(
                    n_bits=int(self.n_bits),
                    labels=torch.from_numpy(y),
                    n_classes=len(self.classes_),
                    encoder=encoder,
                    generator=generator,
                ),
            )
        return module

    def _new_encoder(self, n_bits):
        from torch import nn

        from skhash.neural.supervised._module import hashing_perceptron

        n_features = int(self.n_features_in_)
        if self.module is None:
            hidden = check_layer_sizes(self.hidden_layer_sizes, "hidden_layer_sizes")
            sizes = [n_features, *hidden, int(n_bits)]
            return hashing_perceptron(sizes, self.dropout, self.balanced)
        encoder = self.module(n_features, int(n_bits))
        if self.input_shape_ is None:
            return encoder
        return nn.Sequential(nn.Unflatten(1, tuple(self.input_shape_)), encoder)

    def _restore_module(self, n_rows=None):
        """Return a network of the user's own, with the weights of the fit."""
        import torch

        from skhash.neural.supervised._module import SupervisedModule

        if self.module is None:
            raise ValueError(
                "The network is not part of what was saved. Set the parameter module "
                "to the factory that this encoder was fitted with."
            )
        with seeded_globals(0):
            encoder = self._new_encoder(self.n_bits_)
        weights = map(torch.from_numpy, self.weights_)
        try:
            encoder.load_state_dict(dict(zip(self.weight_names_, weights, strict=True)))
        except RuntimeError as error:
            raise ValueError(
                "The parameter module makes another network than this encoder was "
                f"fitted with: {error}"
            ) from error
        return SupervisedModule(encoder, self.mean_, self.scale_)

    def _read_out(self, net, X):
        module, values = net.module_, arrays_of(net.module_)
        self.mean_, self.scale_ = module.mean, module.scale
        self.n_bits_ = int(self.n_bits)
        if self.module is None:
            from skhash.neural.supervised._module import folded_layers

            self.coefs_, self.intercepts_ = folded_layers(module.encoder)
            self.coefs_[0] = self.coefs_[0] / np.float32(self.scale_)
            self.weights_ = self.weight_names_ = None
            return
        self.coefs_ = self.intercepts_ = None
        weights = {
            name.removeprefix("encoder."): np.atleast_1d(value)
            for name, value in values.items()
            if name.startswith("encoder.")
        }
        self.weights_, self.weight_names_ = [*weights.values()], [*weights]

    def _optimizer(self, module):
        return self.optimizer, {"weight_decay": self.weight_decay}

    def _rows(self, X, y, net, n_before):
        from skhash.training._batches import Rows

        return Rows(X, labels=y, split=net.split)

    def _fit_rows(self, net, rows, epochs, history):
        # A network of the user's own draws from torch's global generators.
        seed = net.module_.generator.initial_seed()
        with seeded_globals(seed, net.device):
            super()._fit_rows(net, rows, epochs, history)

    def _fit_codes(self, X, y, random_state):
        super()._fit_codes(X, y, random_state)
        bits = np.empty((X.shape[0], self.n_bits_), dtype=np.uint8)
        error = 0.0
        for rows in row_chunks(X.shape[0], 12 * X.shape[1] + 4 * self.n_bits_):
            logits = self._logits(X[rows])
            bits[rows] = logits > 0
            error += float(np.square(np.abs(np.tanh(logits)) - 1).sum())
        self.quantization_error_ = error / bits.size
        labels = y[:, 0] if y.shape[1] == 1 else y
        self.intra_distance_, self.inter_distance_ = class_distances(bits, labels)
        self.separability_ = self.inter_distance_ - self.intra_distance_

    @property
    def _n_features_out(self):
        check_is_fitted(self)
        return self.n_bits_

    def _logits(self, X):
        return super()._logits(X) if self.weights_ is None else self._run_module(X)

    def _run_module(self, X):
        """Return the logits of a network of the user's own."""
        import torch

        from skhash.training._net import whole_batch

        device = torch.device(inference_device(self.device))
        module = self.net_.module_ if hasattr(self, "net_") else self._restore_module()
        if next(module.parameters()).device.type != device.type:
            module = copy.deepcopy(module).to(device)
        module.eval()
        with torch.inference_mode():
            return np.concatenate(
                [
                    module(whole_batch(module, X[i : i + ENCODED_ROWS]).X.to(device))
                    .float()
                    .cpu()
                    .numpy()
                    for i in range(0, X.shape[0], ENCODED_ROWS)
                ]
            )

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.target_tags.required = True
        return tags


# What the parameters that all these encoders have may be.
SUPERVISED_CONSTRAINTS: dict = {
    "n_bits": [Interval(Integral, 1, None, closed="left")],
    "module": [callable, None],
    "hidden_layer_sizes": ["array-like"],
    "dropout": [Interval(Real, 0, 1, closed="left")],
    "balanced": ["boolean"],
    "input_shape": ["array-like", None],
    "weight_decay": [Interval(Real, 0, None, closed="left")],
    "num_workers": [Interval(Integral, 0, None, closed="left")],
    "normalize": ["boolean"],
    **TRAINING_CONSTRAINTS,
    "batch_size": [Interval(Integral, 2, None, closed="left"), StrOptions({"auto"})],
}


def _is_lazy(X) -> bool:
    """Say whether `X` is the rows of a torch Dataset."""
    return hasattr(X, "item_shape")


def _check_outputs(encoder, n_features, n_bits):
    """Raise ValueError where a network does not make one logit for each bit."""
    import torch

    with torch.no_grad():
        outputs = encoder.eval()(torch.zeros(2, n_features))
    encoder.train()
    if not isinstance(outputs, torch.Tensor):
        raise TypeError(
            f"The network of module= returns a {type(outputs).__name__}; it has to "
            "return one tensor, the logits."
        )
    if outputs.shape != (2, n_bits) or outputs.dtype != torch.float32:
        raise ValueError(
            f"The network of module= maps 2 rows to {outputs.dtype} of shape "
            f"{tuple(outputs.shape)}; it has to be torch.float32 of shape "
            f"(2, {n_bits}), for n_bits={n_bits}."
        )
