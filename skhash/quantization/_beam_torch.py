"""The beam search of `_beam` with torch, for accelerators."""

import torch

from skhash.utils.chunks import row_chunks
from skhash.utils.torch import widest_float

# Bytes of what the kept codes of a chunk of rows cost with all values of a block.
BLOCK_BYTES = 2**28


class TorchBeamSearch:
    """Beam search on a device; see `_beam.BeamSearch`, which finds the same codes.

    Where errors of codes differ by no more than float32 rounds, it may find others.
    """

    def __init__(self, codebook, width, device):
        self.width, self.device = width, device
        self.n_blocks, self.n_values, n_features = codebook.shape
        entries = torch.from_numpy(codebook).to(device).reshape(-1, n_features)
        self.entries = -2 * entries.T
        entries = entries.to(widest_float(device))
        self.squares = entries.square().sum(dim=1).float()
        self.firsts = self.n_values * torch.arange(self.n_blocks, device=device)
        # For each block, those of the entries before with its entries.
        self.couplings = [
            (2 * entries[:first] @ entries[first : first + self.n_values].T).float()
            for first in range(0, len(entries), self.n_values)
        ]

    @torch.no_grad()
    def search(self, centered, values) -> None:
        """Write the codes of rows; see `BeamSearch.search`."""
        row_bytes = 4 * self.n_values * max(self.n_blocks, self.width)
        for rows in row_chunks(len(values), row_bytes, budget=BLOCK_BYTES):
            X = torch.from_numpy(centered[rows]).float().to(self.device)
            tables = torch.addmm(self.squares, X, self.entries)
            tables = tables.view(len(X), self.n_blocks, self.n_values)
            values[rows] = self._search(tables).cpu().numpy()

    def _search(self, tables):
        """Return codes (n, n_blocks) by what values cost alone (n, n_blocks, 256)."""
        kept = self.firsts.new_empty((len(tables), 1, 0))
        costs = tables.new_zeros(len(tables), 1)
        for block, couplings in enumerate(self.couplings):
            sums = costs[:, :, None] + tables[:, None, block]
            if block:
                before = (kept + self.firsts[:block]).flatten(0, 1)
                added = torch.nn.functional.embedding_bag(before, couplings, mode="sum")
                sums += added.view_as(sums)
            sums = sums.flatten(1)
            width = min(self.width, sums.shape[1])
            costs, places = sums.topk(width, dim=1, largest=False)
            parents, chosen = places // self.n_values, places % self.n_values
            kept = kept.gather(1, parents[:, :, None].expand(-1, -1, block))
            kept = torch.cat([kept, chosen[:, :, None]], dim=2)
        return kept[:, 0]
