"""The contract of torch modules that are trained."""

from abc import ABCMeta, abstractmethod
from contextlib import contextmanager

import torch
from torch import nn

from skhash.training._batches import Rows


class TrainedModule(nn.Module, metaclass=ABCMeta):
    """A module that computes its own loss.

    ``forward(X)`` maps the values of a batch to outputs, `loss` these to what is
    minimised. The other methods do nothing unless they are overridden.

    Attributes
    ----------
    mean : ndarray of shape (n_features,) or None
    scale : float
        It is fed rows as ``(x - mean) / scale``.
    axes : ndarray of shape (n_axes, n_features) or None
        Rather than with all columns, they are fed with their coordinates along these.
    accepts_sparse : bool
        Whether sparse rows are fed as sparse CSR tensors, else dense. Those are not
        centred.
    generator : torch.Generator or None
        What it draws with, on its device; see `seed`.
    """

    mean = None
    scale = 1.0
    axes = None
    accepts_sparse = False
    generator: torch.Generator | None = None

    @abstractmethod
    def loss(self, outputs, batch) -> torch.Tensor:
        """Return the loss of a batch, a scalar.

        Parameters
        ----------
        outputs : Tensor
            What ``forward(batch.X)`` returned.
        batch : Batch
        """

    def rows(self, X, targets, run) -> Rows:
        """Return the rows that it is fed, with what is known of each.

        Parameters
        ----------
        X : {ndarray, CSR array, RowView} of shape (n_samples, n_features)
        targets : object
            What the estimator has made of ``y``.
        run : Run
            Its ``split`` says which rows are trained on.
        """
        return Rows(X, split=run.split)

    def learned(self) -> dict[str, torch.Tensor]:
        """Return the values that training led to, by the names of the state."""
        return self.state_dict()

    def seed(self, seed, device) -> None:
        """Draw from a fresh generator on this device."""
        self.generator = torch.Generator(device).manual_seed(int(seed))

    def start_phase(self, phase: int) -> None:
        """Take note that a phase starts, with a fresh optimizer; the first one is 0."""

    def start_epoch(self, epoch: int) -> None:
        """Take note that an epoch starts; the first one is 0."""

    def start_step(self, optimizer) -> None:
        """Do what precedes a step of the optimizer."""

    def end_step(self, optimizer) -> None:
        """Do what follows a step of the optimizer."""

    @contextmanager
    def shadow(self):
        """Let batches in the block leave no trace but gradients.

        Batch normalisation then uses the statistics of the batch, as always in
        training, without adding them to those it keeps; and what is drawn with
        ``generator`` is drawn again after the block.
        """
        norms = [
            layer
            for layer in self.modules()
            if getattr(layer, "track_running_stats", False)
        ]
        state = self.generator.get_state()
        _track(norms, False)
        try:
            yield
        finally:
            _track(norms, True)
            self.generator.set_state(state)


def _track(norms, track):
    for norm in norms:
        norm.track_running_stats = track
