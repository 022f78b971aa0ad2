"""What a stochastic binary network is trained with, kept as, and run by."""

import copy

import numpy as np

from skhash.neural._mlp import check_layer_sizes
from skhash.utils.chunks import row_chunks
from skhash.utils.torch import inference_device, resolve_device

# Rows of a batch that statistics of norms are taken from after training.
STATISTICS_ROWS = 512


class NetworkMixin:
    """A network in a skorch net while it is trained, and as arrays when it is used."""

    def _make_net(self, X, n_classes, seeds, mean, scale, restore=False):
        import torch

        from skhash._net import make_net
        from skhash.gradients import resolve_network_gradient
        from skhash.modules._architectures import rebuild
        from skhash.modules._classifier import ClassifierModule

        device = resolve_device(self.device)
        generator = torch.Generator().manual_seed(seeds[0])
        if restore:
            network = rebuild(self.layers_, self.weights_)
        else:
            network = self._new_network(n_classes, generator)
        module = ClassifierModule(
            network,
            resolve_network_gradient(self.gradient),
            self.n_train_samples,
            self.objective == "multi_sample",
            mean,
            scale,
        )
        module.generator = torch.Generator(device).manual_seed(seeds[1])
        return make_net(
            module,
            lr=self.lr,
            batch_size=self._resolve_batch_size(X.shape[0]),
            optimizer=self.optimizer,
            callbacks=self.callbacks,
            train_split=self.validation_fraction,
            device=device,
            generator=generator,
            verbose=self.verbose,
        )

    def _new_network(self, n_classes, generator):
        from skhash.modules._architectures import perceptron

        hidden = check_layer_sizes(self.hidden_layer_sizes, "hidden_layer_sizes")
        return perceptron(
            [int(self.n_features_in_), *hidden, n_classes],
            noise=self.noise,
            weights="real",
            batch_norm=self.batch_norm,
            generator=generator,
        )

    def _resolve_batch_size(self, n_samples):
        if self.batch_size != "auto":
            return self.batch_size
        return int(np.clip(n_samples // 100, 32, 512))

    def _train(self, net, X, codes, weights, epochs, history):
        import torch

        from skhash._net import train
        from skhash.modules._architectures import describe

        module = net.module_
        module.row_weights = None
        if weights is not None:
            module.row_weights = torch.tensor(
                weights, dtype=torch.float32, device=net.device
            )
        targets = np.hstack([np.arange(len(codes))[:, None], codes])
        records = train(net, X, targets, epochs)
        if not np.isfinite(records[-1]["train_loss"]):
            raise ValueError(
                f"Training diverged: the loss is {records[-1]['train_loss']} after "
                f"{len(records)} epoch(s) with lr={self.lr}. Lower lr."
            )
        self.weights_, self.det_statistics_ = self._read_out(net, X)
        self.layers_ = describe(module.network)
        self.mean_, self.scale_ = module.mean, module.scale
        self.net_ = net
        self.history_ = history + records
        self.n_iter_ = len(self.history_)

    def _read_out(self, net, X):
        """Return the parameters, and the statistics of norms without noise."""
        from skhash._net import BatchIterator, feed
        from skhash.modules._classifier import refresh_statistics

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
        return [*noisy.values()], [certain[name] for name in _statistics(certain)]

    def _members(self, mode):
        """Return the networks of a mode, without random choices left."""
        import torch

        from skhash.modules._architectures import rebuild
        from skhash.modules._classifier import Member

        device = inference_device(self.device)
        network = rebuild(self.layers_, self.weights_).to(device)
        if mode == "ensemble":
            generator = torch.Generator(device).manual_seed(self.predict_seed_)
            with torch.no_grad():
                return [
                    Member(network, generator) for _ in range(self.n_predict_samples)
                ]
        state = network.state_dict()
        for name, value in zip(_statistics(state), self.det_statistics_, strict=True):
            state[name].copy_(torch.from_numpy(value))
        return [Member(network)]

    def _run(self, X, width, dtype, function) -> np.ndarray:
        """Return what a function of standardised rows makes, one chunk at a time."""
        import torch

        from skhash._net import ArrayDataset

        data = ArrayDataset(X, None, self.mean_, self.scale_)
        device = inference_device(self.device)
        widest = max(
            self.n_features_in_, *(weights.shape[0] for weights in self.weights_)
        )
        result = np.empty((X.shape[0], width), dtype=dtype)
        with torch.no_grad():
            for rows in row_chunks(X.shape[0], 12 * widest):
                result[rows] = function(data.batch(rows).to(device)).cpu().numpy()
        return result

    def __getstate__(self):
        state = super().__getstate__()
        if "net_" in state and _device_of(state["net_"]).type != "cpu":
            # It holds generators of that device, which no other machine can read.
            state = {name: value for name, value in state.items() if name != "net_"}
        return state


def _device_of(net):
    """Return the device of a net's parameters."""
    return next(net.module_.parameters()).device


def _statistics(state) -> list[str]:
    """Return the names of the statistics of norms among those of a state."""
    return [name for name in state if name.endswith(("running_mean", "running_var"))]
