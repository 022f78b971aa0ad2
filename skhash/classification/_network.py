"""How a stochastic binary network is made, trained, and read out as arrays."""

import copy
import math
from functools import partial

import numpy as np
from scipy.optimize import minimize_scalar

from skhash.algebra._perceptron import check_layer_sizes
from skhash.algebra._projection import column_means
from skhash.algebra._scale import total_scale
from skhash.classification._prediction import statistics_of
from skhash.classification._rows import positions
from skhash.utils.torch import resolve_device, seeded_globals

# Rows of a batch that statistics of norms are taken from after training.
STATISTICS_ROWS = 512
# Those of the papers.
CHANNELS = {"allconv": (96, 192), "vgg": (128, 256, 512)}
# Rows that first weights are whitened by.
WHITENED_ROWS = 1024
# Parameters that a net in training does not depend on.
NOT_TRAINED = ("predict_mode", "n_predict_samples", "class_weight")
# The search for a learning rate: epochs of each trial, trials, the logarithms that are
# searched, and what a loss counts as that is beyond.
SEARCH_EPOCHS, SEARCH_STEPS, LOG_LR, WORST_LOSS = 5, 10, (-6, 0), 1e10


class NetworkMixin:
    """A network in a skorch net while it is trained, and as arrays afterwards."""

    def _make_net(self, X, n_classes, seeds, lr, restore=False, epochs=None):
        """Return a net to train for so many epochs, None for a stream of unknown end.

        With `restore` its first parameters are those of the last fit.
        """
        import torch

        from skhash.classification._architectures import rebuild
        from skhash.classification._augmentation import AUGMENTATIONS
        from skhash.classification._module import ClassifierModule, whiten
        from skhash.gradients import resolve_network_gradient
        from skhash.networks._latent_weights import law_of
        from skhash.training._net import (
            feed,
            make_net,
            resolve_splitter,
            snapshot,
            split_rows,
        )

        device = resolve_device(self.device)
        generator = torch.Generator().manual_seed(seeds[0])
        splitter = resolve_splitter(self.validation_fraction, generator)
        split = split_rows(splitter, X)
        X = X if split is None else X[split.train]
        weights = self._new_weights(X.shape[0])
        if restore:
            network = rebuild(self.layers_, self.weights_, self.noise)
            for layer in network.layers:
                if law_of(layer.weights) != "real":
                    layer.weights = weights
            mean, scale = self.mean_, self.scale_
        else:
            network = self._new_network(n_classes, weights, generator)
            if self.weights != "real" and len(network.layers) == 1:
                raise ValueError(
                    f"weights={self.weights!r} are between layers of units, and the "
                    "network has one layer; give hidden_layer_sizes two sizes or more."
                )
            mean = column_means(X)
            scale = total_scale(X, mean)
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
        if self.init == "whiten" and not restore:
            some = torch.randperm(X.shape[0], generator=generator)[:WHITENED_ROWS]
            whiten(network, feed(module, X).batch(some.numpy()), generator)
        module.generator = torch.Generator(device).manual_seed(seeds[1])
        net = make_net(
            module,
            lr=lr,
            batch_size=self._resolve_batch_size(X.shape[0]),
            optimizer=self.optimizer,
            optimizer_params=_decays(network),
            callbacks=self.callbacks,
            train_split=splitter,
            device=device,
            generator=generator,
            verbose=self.verbose,
            lr_factor=None if epochs is None else lr_factor(self.lr_schedule, epochs),
        )
        net.split = split
        net.params = snapshot(self.get_params(deep=False))
        return net

    def _resumed_net(self, X):
        """Return a copy of the net to go on with, on other rows."""
        from skhash.training._net import resume, split_rows

        lr = self.lr_ if self.lr == "auto" else self.lr
        params = self.get_params(deep=False)
        net = resume(self.net_, params, lr, self.batch_size, NOT_TRAINED)
        net.split = split_rows(net.splitter, X)
        return net

    def _new_network(self, n_classes, weights, generator):
        from skhash.networks import _architectures as architectures

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

    def _search_lr(self, X, codes, weights, n_classes, seeds):
        """Return the learning rate of the least loss after some epochs."""
        epochs = min(SEARCH_EPOCHS, self.max_epochs)

        def loss_at(log_lr):
            net = self._make_net(X, n_classes, seeds, float(10**log_lr))
            loss = self._run_epochs(net, X, codes, weights, epochs)[-1]["train_loss"]
            # The search fits parabolas, which infinite values would spoil.
            return min(loss, WORST_LOSS) if np.isfinite(loss) else WORST_LOSS

        found = minimize_scalar(
            loss_at, bounds=LOG_LR, method="bounded", options={"maxiter": SEARCH_STEPS}
        )
        return float(10**found.x)

    def _resolve_batch_size(self, n_samples):
        if self.batch_size != "auto":
            return self.batch_size
        return int(np.clip(n_samples // 100, 32, 512))

    def _run_epochs(self, net, X, codes, weights, epochs) -> list[dict]:
        """Train a net and return the records of the epochs."""
        import torch

        from skhash.training._net import train

        module = net.module_
        module.row_weights = None
        if weights is not None:
            module.row_weights = torch.tensor(
                weights, dtype=torch.float32, device=_device_of(net)
            )
        targets = np.hstack([np.arange(len(codes))[:, None], codes])
        return train(net, X, targets, epochs, net.split)

    def _train(self, net, X, codes, weights, epochs, history):
        """Train a net and set the fitted attributes."""
        from skhash.classification._architectures import describe

        records = self._run_epochs(net, X, codes, weights, epochs)
        if not np.isfinite(records[-1]["train_loss"]):
            raise ValueError(
                f"Training diverged: the loss is {records[-1]['train_loss']} after "
                f"{len(records)} epoch(s) with lr={net.lr:.3g}. Lower lr."
            )
        self.weights_, self.det_statistics_ = self._read_out(net, X)
        self.layers_ = describe(net.module_.network)
        self.mean_, self.scale_ = net.module_.mean, net.module_.scale
        self.lr_ = net.lr
        self.net_ = net
        self.history_ = history + records
        self.n_iter_ = len(self.history_)

    def _read_out(self, net, X):
        """Return the parameters, and the statistics of norms without noise."""
        from skhash.classification._module import refresh_statistics
        from skhash.training._net import BatchIterator, feed

        X = X if net.split is None else X[net.split.train]
        network = copy.deepcopy(net.module_.network)
        states = []
        for generator in (net.module_.generator, None):
            if self.bn_recalibrate:
                rows = BatchIterator(
                    feed(net.module_, X), STATISTICS_ROWS, _device_of(net)
                )
                refresh_statistics(network, (batch for batch, _ in rows), generator)
            states.append(
                {
                    name: value.detach().cpu().numpy().copy()
                    for name, value in network.state_dict().items()
                }
            )
        noisy, certain = states
        return [*noisy.values()], [certain[name] for name in statistics_of(certain)]

    def _training_inputs(self, X, y):
        """Return a module with norms at rest, a batch of all rows, and its targets.

        The module is made anew of the fitted arrays and the present parameters.
        """
        from skhash.classification._module import ClassifierModule
        from skhash.gradients import resolve_network_gradient
        from skhash.training._net import fed_batch

        if y is None:
            raise ValueError("The loss of a classifier needs y=, the classes of rows.")
        X = self._validate_fitted(X)
        module = ClassifierModule(
            self._network("ensemble"),
            resolve_network_gradient(self.gradient),
            self.n_train_samples,
            self.objective == "multi_sample",
            self.mean_,
            self.scale_,
        )
        codes = positions(np.asarray(y), self.classes_)
        targets = np.hstack([np.arange(len(codes))[:, None], codes])
        return module, fed_batch(module, X), targets

    def __getstate__(self):
        state = super().__getstate__()
        if "net_" in state and _device_of(state["net_"]).type != "cpu":
            # It holds generators of that device, which no other machine can read.
            state = {name: value for name, value in state.items() if name != "net_"}
        return state


def _decays(network) -> dict:
    """Return the weight decay that the weights of layers ask of the optimizer."""
    groups = [
        (f"network.layers.{depth}.weight", {"weight_decay": layer.weights.weight_decay})
        for depth, layer in enumerate(network.layers)
        if hasattr(layer.weights, "weight_decay")
    ]
    return {"param_groups": groups} if groups else {}


def lr_factor(schedule, n_epochs):
    """Return what maps an epoch to a factor of the learning rate, or None.

    Parameters
    ----------
    schedule : {"cosine", "step"} or None
    n_epochs : int
    """
    return None if schedule is None else partial(SCHEDULES[schedule], n_epochs)


def _cosine(n_epochs, epoch):
    return 0.5 * (1 + math.cos(math.pi * min(epoch / n_epochs, 1)))


def _step(n_epochs, epoch):
    return 0.1 ** ((epoch >= 0.6 * n_epochs) + (epoch >= 0.8 * n_epochs))


SCHEDULES = {"cosine": _cosine, "step": _step}


def _device_of(net):
    """Return the device of a net's parameters."""
    return next(net.module_.parameters()).device
