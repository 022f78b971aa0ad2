"""A torch `Dataset` as a matrix that is read when it is needed."""

import numpy as np
import torch
from torch.utils.data import DataLoader, Dataset, IterableDataset, Subset

from skhash.utils.torch import seeded_globals

# Items that are read together where there are no batches.
GROUP = 64


class DatasetRows:
    """The items of a dataset as flat rows, read by a torch data loader.

    Parameters
    ----------
    dataset : torch Dataset
        Items are arrays or tensors of one shape, or tuples that start with one.
    num_workers : int
        Processes that read; 0 reads in this one.

    Attributes
    ----------
    shape : tuple (n_samples, n_features)
    item_shape : tuple of int
        The shape of an item before it is made flat.
    generator : torch.Generator
        Seeds the processes that read. In this one, the dataset draws from torch's
        global generator.
    """

    def __init__(self, dataset, num_workers=0):
        if isinstance(dataset, IterableDataset):
            raise TypeError(
                f"{type(dataset).__name__} has no length and no order; give a Dataset "
                "whose items have numbers."
            )
        if not len(dataset):
            raise ValueError("The dataset has 0 sample(s), but 1 is needed.")
        with seeded_globals(0):
            first = _values(dataset[0])
        self.dataset, self.num_workers = dataset, num_workers
        self.generator = torch.Generator()
        self.item_shape = tuple(first.shape)
        self.shape = (len(dataset), first.numel())

    def __len__(self):
        return self.shape[0]

    def __getitem__(self, rows) -> np.ndarray:
        """Return these rows, float32, drawn with the same random numbers each time."""
        items = Subset(self.dataset, np.arange(len(self))[rows].tolist())
        return torch.cat(self._read(items, _stack)).numpy()

    def batches(self, batches):
        """Yield the rows of each batch of positions as a float32 tensor."""
        positions = [batch.tolist() for batch in batches]
        return iter(
            DataLoader(
                self.dataset,
                batch_sampler=positions,
                num_workers=self.num_workers,
                collate_fn=_stack,
                generator=self.generator,
            )
        )

    def labels(self):
        """Return ``dataset.targets``, or else the second part of each item.

        Raises
        ------
        ValueError
            If the items have no second part.
        """
        if hasattr(self.dataset, "targets"):
            return np.asarray(self.dataset.targets)
        parts = self._read(self.dataset, _labels)
        labels = [label for part in parts for label in part]
        if len(labels) < len(self):
            raise ValueError("The items of the dataset have no labels; give them as y.")
        return np.asarray(labels)

    def _read(self, items, collate):
        """Return what `collate` makes of groups of items, in order."""
        loader = DataLoader(
            items,
            batch_size=GROUP,
            num_workers=self.num_workers,
            collate_fn=collate,
            generator=self.generator,
        )
        with seeded_globals(0):
            return list(loader)


def is_dataset(X) -> bool:
    """Say whether `X` is a torch Dataset."""
    return isinstance(X, Dataset)


def _values(item) -> torch.Tensor:
    values = item[0] if isinstance(item, tuple | list) else item
    return torch.as_tensor(values, dtype=torch.float32)


def _stack(items) -> torch.Tensor:
    return torch.stack([_values(item).flatten() for item in items])


def _labels(items) -> list:
    pairs = (item for item in items if isinstance(item, tuple | list))
    return [pair[1] for pair in pairs if len(pair) > 1]
