"""Search with torch: on the CPU, a device for tests, and CUDA where there is one."""

import gc
import weakref

import numpy as np
import pytest
import torch
from cases import each
from searches import nearest, within
from torch.utils._python_dispatch import TorchDispatchMode

from skhash.codes import hamming_distances, pack_bits
from skhash.neighbors.search import _torch, choose
from skhash.neighbors.search._torch import DeviceSearch
from skhash.neighbors.store.select import select
from skhash.neighbors.store.store import Store

CPU = torch.device("cpu")
N_BITS = (1, 8, 65, 200, 2048, 2049, 4096)
every_device = pytest.mark.parametrize(
    "device", ["cpu", "pretend", "cuda"], indirect=True
)


def make_codes(seed, n, n_bits, density=0.2):
    """Codes with the more ties, the fewer bits they have."""
    return pack_bits(np.random.default_rng(seed).random((n, n_bits)) < density)


def small_budget(n_bits):
    """Bytes for blocks of some 60 codes."""
    return 2**13 + 10_000 * (-(-n_bits // 8))


def assert_nearest(packed, queries, k, device="cpu", **options):
    search = DeviceSearch(packed, torch.device(device), **options)
    distances = hamming_distances(queries, packed)
    positions = np.argsort(distances, axis=1, kind="stable")[:, :k]
    expected = np.take_along_axis(distances, positions, axis=1), positions
    np.testing.assert_array_equal(nearest(search, queries, k), expected)


def assert_within(packed, queries, radius, device="cpu", **options):
    search = DeviceSearch(packed, torch.device(device), **options)
    answers = within(search, queries, radius)
    for row, near in enumerate(hamming_distances(queries, packed)):
        positions = np.argsort(near, kind="stable")[: np.sum(near <= radius)]
        np.testing.assert_array_equal(answers[1][row], positions)
        np.testing.assert_array_equal(answers[0][row], near[positions])


@every_device
@each("n_bits", N_BITS)
@each("n", [1, 8, 250])
def test_all_lengths_and_numbers(n, n_bits, device):
    # Some queries are at distance 0 from a code, some at n_bits: the largest products.
    packed = make_codes(0, n, n_bits)
    same = packed[:3]
    bits = np.unpackbits(same, axis=1)[:, :n_bits]
    queries = np.concatenate([same, pack_bits(1 - bits), make_codes(1, 5, n_bits)])
    for budget in (2**30, small_budget(n_bits)):
        for k in {1, min(n, 10), n}:
            assert_nearest(packed, queries, k, device, budget=budget)
        for radius in (0, n_bits // 4, n_bits + 1):
            assert_within(packed, queries, radius, device, budget=budget)


@pytest.mark.parametrize("n_bits", [8, 64, 1000, 2048])
@every_device
def test_half_precision_is_exact(n_bits, device, monkeypatch):
    monkeypatch.setattr(_torch, "_dtype", lambda device, n_bits: torch.float16)
    packed = make_codes(0, 700, n_bits)
    far = pack_bits(1 - np.unpackbits(packed[:3], axis=1)[:, :n_bits])
    queries = np.concatenate([packed[:3], far])
    small = {"budget": small_budget(n_bits)}
    assert_nearest(packed, queries, 700, device)
    assert_nearest(packed, queries, 20, device, **small)
    assert_within(packed, queries, n_bits // 5, device, **small)


def test_blocks_of_codes_meet_all_chunks_of_queries(monkeypatch):
    # Queries in several parts, each in several chunks; codes in several blocks.
    packed, queries = make_codes(0, 600, 70), make_codes(1, 400, 70)
    tiles = []
    make = DeviceSearch._tiles
    monkeypatch.setattr(
        DeviceSearch,
        "_tiles",
        lambda *a: ((tiles.append(t[:2]), t)[1] for t in make(*a)),
    )
    assert_nearest(packed, queries, 20, budget=2**17)
    starts = [start for start, _ in tiles]
    assert len(set(starts)) > 1
    assert starts.count(0) > len([s for s, some in tiles if s == some.start == 0]) > 1
    assert_within(packed, queries, 12, budget=2**15)


def test_more_positions_than_int32_holds(monkeypatch):
    # As if the codes of a block stood behind three thousand million others.
    packed = make_codes(0, 50, 64)
    make = DeviceSearch._tiles
    monkeypatch.setattr(
        DeviceSearch,
        "_tiles",
        lambda *a: ((3 * 10**9 + start, *rest) for start, *rest in make(*a)),
    )
    n = 50
    distances, positions = nearest(DeviceSearch(packed, CPU), packed[:2], n)
    shifted = distances.astype(np.int64) * n + positions
    near = np.sort(hamming_distances(packed[:2], packed) * n + np.arange(n), axis=1)
    np.testing.assert_array_equal(shifted, near + 3 * 10**9)
    _, positions = within(DeviceSearch(packed, CPU), packed[:2], 64)
    np.testing.assert_array_equal(np.sort(positions[1]), np.arange(n) + 3 * 10**9)


def test_mixed_precision_of_the_caller_is_not_taken():
    # bfloat16 would round products over 256.
    packed = make_codes(0, 500, 1024, 0.1)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        rounded = torch.full((1, 301), 1.0) @ torch.full((301, 1), 1.0)
        assert rounded.item() != 301
        assert_nearest(packed, packed[:5], 500)
        assert_within(packed, packed[:5], 190)


class LargestMemory(TorchDispatchMode):
    """Adds up the bytes of all tensors that are there at the same time."""

    def __init__(self):
        super().__init__()
        self.now = self.most = 0
        self._owners = {}

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        result = func(*args, **(kwargs or {}))
        for tensor in result if isinstance(result, list | tuple) else [result]:
            if isinstance(tensor, torch.Tensor):
                storage = tensor.untyped_storage()
                self._count(storage.data_ptr(), storage.nbytes(), 1)
                weakref.finalize(
                    tensor, self._count, storage.data_ptr(), storage.nbytes(), -1
                )
        return result

    def _count(self, address, n_bytes, owners):
        before = self._owners.get(address, 0)
        self._owners[address] = before + owners
        self.now += n_bytes * ((before + owners > 0) - (before > 0))
        self.most = max(self.most, self.now)


@each("n_bits", [16, 64, 512])
def test_memory_stays_within_the_budget(n_bits):
    packed, budget = make_codes(0, 4000, n_bits), 2**20
    for k in (1, 1000):
        with LargestMemory() as memory:
            nearest(DeviceSearch(packed, CPU, budget=budget), packed[:40], k)
        assert budget / 8 < memory.most <= budget
    for radius in (n_bits, 0):
        with LargestMemory() as memory:
            search = DeviceSearch(packed, CPU, budget=budget)
            distances, _ = within(search, packed[:40], radius)
        # On the CPU, what was found stays where it was: three int64 a pair.
        found = 24 * sum(map(len, distances))
        assert budget / 8 < memory.most - found <= budget


def selections(store):
    """Return a store and what of it is searched, by name."""
    some = np.random.default_rng(2).permutation(store.n)
    removed = store.remove(some[:20])
    mask = np.arange(store.n) % 3 > 0
    return {
        "all": (store, select(store)),
        "few removed": (removed, select(removed)),
        "mask": (removed, select(removed, mask)),
        "many removed": (store, select(store.remove(some[20:]))),
        "ids": (removed, select(removed, ids=some[:60])),
        "one": (store, select(store, ids=some[:1])),
    }


@every_device
@pytest.mark.parametrize("room", [0, 2**20], ids=["streamed", "kept"])
@pytest.mark.parametrize("n_bits", [13, 64, 130])
def test_find_answers_as_the_cpu(n_bits, room, device, monkeypatch):
    monkeypatch.setattr(_torch, "_room", lambda device: room)
    queries = make_codes(1, 9, n_bits)
    for store, selected in selections(Store(make_codes(0, 300, n_bits))).values():
        for what, reach in (("nearest", min(7, selected.n)), ("within", n_bits // 5)):
            answers = _torch.find(
                what, store, selected, queries, reach, torch.device(device)
            )
            expected = choose.find(what, store, selected, queries, reach, 1, "brute")
            for one, expected_one in zip(answers, expected, strict=True):
                assert len(one) == len(expected_one) == len(queries)
                for row, expected_row in zip(one, expected_one, strict=True):
                    assert row.dtype == expected_row.dtype
                    np.testing.assert_array_equal(row, expected_row)


def test_codes_go_to_the_device_once_and_leave_with_the_store(monkeypatch):
    sent = []
    send = _torch._to_device
    monkeypatch.setattr(
        _torch,
        "_to_device",
        lambda packed, device: (
            sent.append(packed.shape) if isinstance(packed, np.ndarray) else None,
            send(packed, device),
        )[1],
    )
    store, queries = Store(make_codes(0, 300, 64)), make_codes(1, 9, 64)

    def ask(store):
        sent.clear()
        _torch.find("nearest", store, select(store), queries, 3, CPU)
        return list(sent)

    assert ask(store) == [(300, 8), (9, 8)]
    assert ask(store) == [(9, 8)]
    # The codes are the same after a removal, but not after an addition.
    store = store.remove([5])
    assert ask(store) == [(9, 8)]
    kept = weakref.ref(store.codes_key.get(CPU))
    store = store.append(queries, ids=None)
    gc.collect()
    assert kept() is None
    assert ask(store) == [(309, 8), (9, 8)]
    # Codes that do not fit are sent at each call.
    monkeypatch.setattr(_torch, "_room", lambda device: 309 * 8 - 1)
    other = Store(make_codes(0, 309, 64))
    assert ask(other) == ask(other) == [(9, 8), (309, 8)]


@pytest.mark.parametrize("device", ["cuda"], indirect=True)
@pytest.mark.parametrize("n_bits", [64, 512, 2048, 4096])
def test_cuda_is_exact_whatever_it_may_round(n_bits, device, monkeypatch):
    matmul = torch.backends.cuda.matmul
    monkeypatch.setattr(matmul, "allow_tf32", True)
    monkeypatch.setattr(matmul, "allow_fp16_reduced_precision_reduction", True)
    if hasattr(matmul, "allow_fp16_accumulation"):
        monkeypatch.setattr(matmul, "allow_fp16_accumulation", True)
    packed = make_codes(0, 5000, n_bits)
    with torch.autocast("cuda", dtype=torch.bfloat16):
        assert_nearest(packed, packed[:300], 50, torch.device("cuda"), budget=2**24)


@pytest.mark.parametrize("device", ["cuda"], indirect=True)
@each("k", [1, 10, 1000])
def test_cuda_memory_stays_within_the_budget(k, device):
    # The memory of torch's own kernels is small beside such a block.
    packed, budget = make_codes(0, 2_000_000, 64), 2**28
    torch.cuda.empty_cache()
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_allocated()
    nearest(DeviceSearch(packed, torch.device("cuda"), budget=budget), packed[:500], k)
    assert torch.cuda.max_memory_allocated() - before <= 1.25 * budget
