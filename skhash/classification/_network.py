"""How a stochastic binary network is made, trained, and read out as arrays."""

import copy
import math

import numpy as np
from scipy.optimize import minimize_scalar

from skhash.algebra._perceptron import check_layer_sizes
from skhash.algebra._projection import column_means
from skhash.algebra._scale import total_scale
from skhash.classification._prediction import statistics_of
from skhash.classification._rows import positions
from skhash.training import TrainedMixin, arrays_of
from skhash.utils.torch import seeded_globals

# Rows of a batch that statistics of norms are taken from after training.
STATISTICS_ROWS = 512
# Those of the papers.
CHANNELS = {"allconv": (96, 192), "vgg": (128, 256, 512)}
# Rows that first weights are whitened by.
WHITENED_ROWS = 1024
# The search for a learning rate: epochs of each trial, trials, the logarithms that are
# searched, and what a loss counts as that is beyond.
SEARCH_EPOCHS, SEARCH_STEPS, LOG_LR, WORST_LOSS = 5, 10, (-6, 0), 1e10


class NetworkMixin(TrainedMixin):
    """A network in a skorch net while it is trained, and as arrays afterwards."""

    _untrained_parameters = ("predict_mode", "n_predict_samples", "class_weight")

    def _make_module(self, X, y, rows, device, generator):
        from skhash.classification._module import whiten
        from skhash.training._net import whole_batch

        X = X if rows is None else X[rows]
        weights = self._new_weights(X.shape[0])
        network = self._new_network(len(y.classes), weights, generator)
        if self.weights != "real" and len(network.layers) == 1:
            raise ValueError(
                f"weights={self.weights!r} are between layers of units, and the "
                "network has one layer; give hidden_layer_sizes two sizes or more."
            )
        mean = column_means(X)
        module = self._module(network, mean, total_scale(X, mean))
        if self.init == "whiten":
            some = torch_rows(X.shape[0], generator)[:WHITENED_ROWS]
            whiten(network, whole_batch(module, X[some]).X, generator)
        return module

    def _restore_module(self, n_rows=None):
        from skhash.networks._latent_weights import law_of

        network = self._network("ensemble")
        if n_rows is not None:
            weights = self._new_weights(n_rows)
            for layer in network.layers:
                if law_of(layer.weights) != "real":
                    layer.weights = weights
        return self._module(network, self.mean_, self.scale_)

    def _module(self, network, mean, scale):
        from skhash.classification._augmentation import AUGMENTATIONS
        from skhash.classification._module import ClassifierModule
        from skhash.gradients import resolve_network_gradient

        module = ClassifierModule(
            network,
            resolve_network_gradient(self.gradient),
            self.n_train_samples,
            self.objective == "multi_sample",
            mean,
            scale,
        )
        if self.augment is not None:
            module.augment = AUGMENTATIONS[self.augment]
            module.input_shape = self._image_shape(f"augment={self.augment!r}")
        return module

    def _optimizer(self, module):
        return self.optimizer, _decays(module.network)

    def _step_size(self, X, y, seeds, goes_on):
        if self.lr != "auto":
            return self.lr
        return self.lr_ if goes_on else self._search_lr(X, y, seeds)

    def _new_network(self, n_classes, weights, generator):
        from skhash.classification import _architectures as architectures

        n_features = int(self.n_features_in_)
        if callable(self.architecture):
            return self._own_network(n_features, n_classes, generator)
        hidden = check_layer_sizes(self.hidden_layer_sizes, "hidden_layer_sizes")
        options = {
            "noise": self.noise,
            "weights": weights,
            "batch_norm": self.batch_norm,
            "generator": generator,
        }
        if self.architecture == "mlp":
            if not hidden:
                raise ValueError("hidden_layer_sizes is empty; give one size or more.")
            return architectures.perceptron([n_features, *hidden, n_classes], **options)
        shape = self._image_shape(f"architecture={self.architecture!r}")
        channels = self.channels
        if channels is None:
            channels = CHANNELS[self.architecture]
        channels = check_layer_sizes(channels, "channels")
        if self.architecture == "vgg":
            return architectures.vgg(shape, channels, hidden, n_classes, **options)
        if len(channels) != 2:
            raise ValueError(f"channels={channels}; 'allconv' takes two numbers.")
        return architectures.all_convolutional(shape, channels, n_classes, **options)

    def _own_network(self, n_features, n_classes, generator):
        """Return what the user's factory makes."""
        import torch

        from skhash.networks import StochasticBinaryNetwork

        seed = int(torch.randint(2**31, (), generator=generator))
        with seeded_globals(seed):
            network = self.architecture(n_features, n_classes)
        if not isinstance(network, StochasticBinaryNetwork):
            raise TypeError(
                f"The factory of architecture= returned a {type(network).__name__}; it "
                "has to be a skhash.networks.StochasticBinaryNetwork."
            )
        sizes = network.layers[0].n_inputs, network.head.n_outputs
        if sizes != (n_features, n_classes):
            raise ValueError(
                f"The network of architecture= maps {sizes[0]} inputs to {sizes[1]} "
                f"outputs; it has to be {n_features} features to {n_classes} classes."
            )
        return network

    def _image_shape(self, reader) -> tuple[int, ...]:
        """Return `input_shape`, for what reads rows as images."""
        if self.input_shape is None:
            raise ValueError(f"{reader} needs input_shape=(channels, height, width).")
        shape = tuple(int(size) for size in self.input_shape)
        if len(shape) != 3 or math.prod(shape) != self.n_features_in_:
            raise ValueError(
                f"input_shape={shape} has {math.prod(shape)} values, but rows have "
                f"{self.n_features_in_} features; give (channels, height, width)."
            )
        return shape

    def _new_weights(self, n_rows):
        """Return the weights of inner layers."""
        from skhash.networks._latent_weights import make_weights

        if self.prior_strength and self.weights != "mirror":
            raise ValueError(
                f"prior_strength={self.prior_strength} is for weights='mirror', not "
                f"{self.weights!r}."
            )
        if self.weights == "bayesbinn" and self.optimizer != "sgd":
            raise ValueError(
                f"weights='bayesbinn' takes steps of optimizer='sgd', not of "
                f"{self.optimizer!r}."
            )
        if self.weights != "real" and not self.batch_norm:
            raise ValueError(
                f"weights={self.weights!r} cannot be scaled, and need batch_norm=True."
            )
        return make_weights(self.weights, n_rows, self.prior_strength)

    def _search_lr(self, X, y, seeds):
        """Return the learning rate of the least loss after some epochs."""
        from skhash.training._net import train

        epochs = min(SEARCH_EPOCHS, self.max_epochs)

        def loss_at(log_lr):
            net = self._make_net(X, y, seeds, lr=float(10**log_lr))
            records = train(net, self._rows(X, y, net, 0), epochs)
            loss = records[-1]["train_loss"]
            # The search fits parabolas, which infinite values would spoil.
            return min(loss, WORST_LOSS) if np.isfinite(loss) else WORST_LOSS

        found = minimize_scalar(
            loss_at, bounds=LOG_LR, method="bounded", options={"maxiter": SEARCH_STEPS}
        )
        return float(10**found.x)

    def _rows(self, X, y, net, n_before):
        from skhash.training._batches import Rows

        weights = None if y.weights is None else y.weights.astype(np.float32)
        return Rows(X, y.codes, weights, split=net.split)

    def _read_out(self, net, X):
        """Set the parameters, and the statistics of norms without noise."""
        from skhash.classification._architectures import describe
        from skhash.classification._module import refresh_statistics
        from skhash.training._batches import BatchIterator, FedRows, Rows

        module = net.module_
        rows = Rows(X if net.split is None else X[net.split.train])
        network = copy.deepcopy(module.network)
        states = []
        for generator in (module.generator, None):
            if self.bn_recalibrate:
                batches = BatchIterator(
                    FedRows(rows, module), STATISTICS_ROWS, net.device
                )
                values = (batch.X for batch, _ in batches)
                refresh_statistics(network, values, generator)
            states.append(arrays_of(network))
        noisy, certain = states
        self.weights_ = [*noisy.values()]
        self.det_statistics_ = [certain[name] for name in statistics_of(certain)]
        self.layers_ = describe(module.network)
        self.mean_, self.scale_ = module.mean, module.scale
        self.lr_ = net.lr

    def _training_batch(self, X, y):
        """Return a module with norms at rest, and all rows as a batch.

        The module is made anew of the fitted arrays and the present parameters.
        """
        import torch

        from skhash.training._net import whole_batch

        if y is None:
            raise ValueError("The loss of a classifier needs y=, the classes of rows.")
        X = self._validate_fitted(X)
        module = self._restore_module()
        codes = positions(np.asarray(y), self.classes_)
        return module, whole_batch(module, X, labels=torch.from_numpy(codes))


def _decays(network) -> dict:
    """Return the weight decay that the weights of layers ask of the optimizer."""
    groups = [
        (f"network.layers.{depth}.weight", {"weight_decay": layer.weights.weight_decay})
        for depth, layer in enumerate(network.layers)
        if hasattr(layer.weights, "weight_decay")
    ]
    return {"param_groups": groups} if groups else {}


def torch_rows(n_rows, generator) -> np.ndarray:
    """Return the positions of rows in a random order."""
    import torch

    return torch.randperm(n_rows, generator=generator).numpy()
