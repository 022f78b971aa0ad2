"""Chance in place of costs: at any size every algorithm is asked, in parts and threads.

On few codes nothing but comparing pays, and larger problems take longer than they are
worth. So costs are drawn, and what is a size in the library is small.
"""

from contextlib import ExitStack, contextmanager
from unittest.mock import patch

from skhash.neighbors import _index, _pairs
from skhash.neighbors.search import (
    asymmetric,
    brute,
    chunks,
    dispatch,
    equal_codes,
    memory,
    multi_index,
    pruned,
    searcher,
    table_scan,
)
from skhash.neighbors.store import select


@contextmanager
def chance_chooses(case):
    """Search with costs and sizes that are drawn, and count who answers."""
    rng = case.rng("costs")
    kinds = {
        name: drawn(name, kind, case, rng) for name, kind in dispatch.ALGORITHMS.items()
    }
    small = [
        (dispatch, {"ALGORITHMS": kinds}),
        (searcher, {"MIN_CODES": 1, "WEIGHED_COST": 0.0}),
        (memory, {"ENOUGH": 1}),
        (select, {"SCAN_SHARE": rng.choice([0.0, 0.5, 1.0])}),
        (chunks, {"MIN_THREAD_WORK": 1, "MAX_CHUNK": int(rng.choice([3, 256]))}),
        (brute, {"MIN_FEW_WORK": 1, "MAX_KEPT": int(rng.choice([5, 1024]))}),
        (pruned, {"MIN_CLUSTERED": 1, "JUDGED_COST": 0.0, "FIRST_CODES_EACH": 0}),
        (pruned, {"FIRST_CODES": int(rng.choice([1, 100, 8192]))}),
        (pruned, {"CHUNK": int(rng.choice([16, 1024])), "ROOM": 1}),
        (pruned, {"MAX_COMPARED": int(rng.choice([3, 4096])), "PROBED": 2}),
        (multi_index, {"MIN_THREAD_COST": 1e-9, "CHUNK": int(rng.choice([7, 1024]))}),
        (multi_index, {"ROOM": int(rng.choice([10, 2**16]))}),
        (equal_codes, {"MIN_THREAD_ANSWERS": 1, "COUNT_AFTER": 0.0}),
        (equal_codes, {"QUERY_COST": 0.0, "EXPAND_COST": 0.0}),
        (asymmetric, {"MIN_THREAD_WORK": 1}),
        (table_scan, {"MIN_THREAD_WORK": 1}),
        (_pairs, {"BLOCK_ROWS": int(rng.choice([5, 2**14]))}),
    ]
    with ExitStack() as stack:
        for module, values in small:
            for name, value in values.items():
                stack.enter_context(patch.object(module, name, value))
        yield


def drawn(name, kind, case, rng):
    """Return an algorithm of this kind that costs what chance says."""

    class Drawn(kind):
        making = 0.0

        def cost(self, question):
            if name == "brute":  # nothing is made where there are no codes
                return 10 ** rng.uniform(0, 12) if len(self.words) else 0.0
            return super().cost(question) * 10 ** rng.uniform(-2, 2)

        def nearest(self, queries, question):
            case.counts[f"answers by {name}, nearest"] += len(queries)
            return super().nearest(queries, question)

        def within(self, queries, question):
            case.counts[f"answers by {name}, within"] += len(queries)
            return super().within(queries, question)

    return Drawn


@contextmanager
def torch_answers(case):
    """Search with torch, as on another device, where codes stay or are sent anew."""
    import torch

    from skhash.neighbors.search import _torch

    def find(*arguments):
        case.counts["answers by torch"] += len(arguments[3])
        return search(*arguments)

    search, device = _torch.find, torch.device("cpu")
    room = case.rng("room").choice([0, 2**30])
    with (
        patch.object(_index, "inference_device", lambda _: device),
        patch.object(_torch, "find", find),
        patch.object(_torch, "_room", lambda _: room),
    ):
        yield
