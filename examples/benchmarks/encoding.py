"""Rows that fitted encoders encode a second, beside blocks of torch and faiss.

    python examples/benchmarks/encoding.py
    python examples/benchmarks/encoding.py --shapes 1000000x50x64 --block-rows 4096

Rows are normal, drawn by the seed, with a mean that is not 0. `PCAHash`, and
`NeighborHash` with a hidden layer of 512 units, are fitted on the first 5000. The same
weights, with the mean folded into the bias, go to

* torch: blocks of rows to float32, products, ReLU, and the comparison with 0; for
  packed codes `numpy.packbits` after it. Blocks of `--block-rows` stay in the cache;
* faiss: ``sa_encode`` of a `LinearTransform` and an `IndexLSH`, of packed codes, rows
  made float32 in the same blocks.

"map" is a file in the operating system's cache, mapped into memory. There are two
limits. *Product* is the rate of the fastest product of blocks in the cache, of NumPy,
torch and ours, by all threads; *memory* is that of the fastest sum of float32. All take
turns in one process; rates are of the medians, in millions of rows a second.
"""

import tempfile
import warnings
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import faiss
import joblib
import numpy as np
import torch
from tools import Table, columns, medians, options, save

from skhash import NeighborHash, PCAHash
from skhash.numerics._affine import affine

DTYPES = {"float16": np.float16, "float32": np.float32, "float64": np.float64}
N_FITTED, HIDDEN, ROUNDS, SEED = 5000, 512, 5, 0
THREADS = joblib.cpu_count()
COLUMNS = columns(
    "rows | hidden | type | from | bits :.2f | bits, torch :.2f | "
    "ratio of bits :.2f | packed :.2f | packed, torch :.2f | faiss :.2f | "
    "ratio of packed :.2f | product :.2f | memory :.2f | of limit :.0%"
)


def layers_of(encoder):
    """Return weights (n_inputs, n_outputs), biases less the mean's, and shortcuts."""
    if isinstance(encoder, PCAHash):
        moved = encoder.intercept_ - encoder.components_ @ encoder.mean_
        return [encoder.components_.T], [moved.astype(np.float32)], None
    first, last = encoder.intercepts_
    first = first - encoder.mean_ @ encoder.coefs_[0]
    last = last - encoder.mean_ @ encoder.skip_coef_
    biases = [first.astype(np.float32), last.astype(np.float32)]
    return encoder.coefs_, biases, encoder.skip_coef_


def weights_of(layers) -> list[np.ndarray]:
    """Return all that rows are multiplied by."""
    coefs, _, skip = layers
    return coefs if skip is None else [*coefs, skip]


def torch_blocks(X, layers, n_rows, pack):
    coefs, intercepts = ([torch.tensor(part) for part in parts] for parts in layers[:2])
    skip = None if layers[2] is None else torch.tensor(layers[2])
    tensor = torch.from_numpy(X)

    def run():
        blocks = []
        for first in range(0, len(X), n_rows):
            rows = values = tensor[first : first + n_rows].float()
            for i, (coef, intercept) in enumerate(zip(coefs, intercepts, strict=True)):
                values = (values.relu() if i else values) @ coef + intercept
            values = values if skip is None else values + rows @ skip
            bits = (values > 0).numpy()
            blocks.append(np.packbits(bits, axis=1) if pack else bits)
        return np.concatenate(blocks)

    return run


def faiss_blocks(X, layers, n_rows):
    (coef,), (intercept,), _ = layers
    transform = faiss.LinearTransform(*coef.shape, True)
    faiss.copy_array_to_vector(np.ascontiguousarray(coef.T).ravel(), transform.A)
    faiss.copy_array_to_vector(intercept, transform.b)
    transform.is_trained = True
    signs = faiss.IndexLSH(coef.shape[1], coef.shape[1], False, False)
    index = faiss.IndexPreTransform(transform, signs)

    def run():
        blocks = [X[i : i + n_rows] for i in range(0, len(X), n_rows)]
        return np.concatenate([index.sa_encode(np.float32(block)) for block in blocks])

    return run


def bandwidth() -> float:
    """Return the bytes that all threads read a second."""
    parts = np.ones((THREADS, 2**25), dtype=np.float32)
    with ThreadPoolExecutor(THREADS) as pool:
        (seconds,) = medians({"": lambda: list(pool.map(np.sum, parts))}, 7).values()
    return parts.nbytes / seconds


def product_rate(shape) -> float:
    """Return the operations a second of the fastest product of blocks."""
    rng = np.random.default_rng(0)
    block = rng.normal(size=(1024, shape[0])).astype(np.float32)
    weights = rng.normal(size=shape).astype(np.float32)
    nothing = np.zeros(shape[1], dtype=np.float32)
    tensors, times = (torch.from_numpy(block), torch.from_numpy(weights)), 4 * THREADS
    with ThreadPoolExecutor(THREADS) as pool:
        ours = partial(pool.map, lambda _: affine(block, weights, nothing))
        calls = [
            lambda: [block @ weights for _ in range(times)],
            lambda: [tensors[0] @ tensors[1] for _ in range(times)],
            lambda: list(ours(range(times))),
        ]
        # One after the other: threads of one may go on for a while, waiting for work.
        seconds = min(medians({"": call}, 9)[""] for call in calls)
    return 2 * times * len(block) * weights.size / seconds


def measure(encoder, X, block_rows, rates):
    """Return the rates of one encoder and one array, and the share of other bits."""
    layers = layers_of(encoder)
    calls = [
        lambda: encoder.transform(X),
        torch_blocks(X, layers, block_rows, pack=False),
        lambda: encoder.transform_packed(X),
        torch_blocks(X, layers, block_rows, pack=True),
    ]
    if len(layers[0]) == 1:
        calls.append(faiss_blocks(X, layers, block_rows))
    times = medians(dict(enumerate(calls)), ROUNDS)
    found = [len(X) / 1e6 / seconds for seconds in times.values()]
    products = zip(weights_of(layers), rates["product"], strict=True)
    seconds = sum(2 * weights.size / rate for weights, rate in products)
    limits = 1e-6 / seconds, rates["memory"] / X[0].nbytes / 1e6
    return found, limits, np.mean(calls[0]() != calls[1]())


def row_of(names, found, limits):
    bits, torch_bits, packed, torch_packed, *faiss_packed = found
    own = packed / max([torch_packed, *faiss_packed])
    peer = faiss_packed[0] if faiss_packed else None
    cells = [bits, torch_bits, bits / torch_bits, packed, torch_packed, peer, own]
    return *names, *cells, *limits, bits / min(limits)


def measure_shape(shape, block_rows, memory, folder, table):
    """Add the rows of one shape; return the largest share of other bits."""
    n, n_features, n_bits = map(int, shape.split("x"))
    rng = np.random.default_rng(SEED)
    X = rng.normal(size=(n, n_features)).astype(np.float32)
    X += rng.normal(size=n_features).astype(np.float32)
    linear = PCAHash(n_bits, random_state=0).fit(X[:N_FITTED])
    deep = NeighborHash(n_bits, hidden_layer_sizes=(HIDDEN,), max_epochs=1)
    deep.set_params(random_state=0).fit(X[:N_FITTED])
    differing = []
    for encoder, hidden in ((linear, None), (deep, HIDDEN)):
        products = [product_rate(it.shape) for it in weights_of(layers_of(encoder))]
        rates = {"memory": memory, "product": products}
        for name, dtype in DTYPES.items():
            rows = X.astype(dtype)
            np.save(folder / "rows.npy", rows)
            mapped = np.load(folder / "rows.npy", mmap_mode="r")
            for place, own in (("array", rows), ("map", mapped)):
                *result, share = measure(encoder, own, block_rows, rates)
                names = f"{n:,} x {n_features} to {n_bits}", hidden, name, place
                table.add(*row_of(names, *result))
                differing.append(share)
    return max(differing)


def main():
    shapes = ["60000x784x64", "60000x384x256"]
    settings = options(__doc__, shapes=shapes, block_rows=1024).parse_args()
    warnings.filterwarnings("ignore", "The given NumPy array is not writable")
    torch.set_num_threads(THREADS)
    memory, table = bandwidth(), Table(COLUMNS).printed()
    with tempfile.TemporaryDirectory() as folder:
        differing = max(
            measure_shape(shape, settings.block_rows, memory, Path(folder), table)
            for shape in settings.shapes
        )
    figures = {"GB/s that are read": memory / 1e9}
    figures["largest share of other bits"] = differing
    data = f"{THREADS} threads"
    save(settings.output, {"Rates": table}, figures, seeds=[SEED], data=data)


if __name__ == "__main__":
    main()
