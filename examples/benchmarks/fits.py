"""Processor seconds of the fit of every estimator, by the number of rows.

    OMP_NUM_THREADS=1 python examples/benchmarks/fits.py --data-home DATA_HOME
    python examples/benchmarks/fits.py --rows 200 400 --data digits

Random rows of MiniLM embeddings, 384 columns, and their labels, which `NeighborHash` is
not given; codes of 64 bits, and defaults. A decoder, with 6 alternations, is fitted to
codes of ITQ.
"README" is the re-ranked search of the README. One thread computes, and a first small
fit compiles. Seconds are those of the processor: other work beside it counts little.
"""

import numpy as np
import torch
from joblib import parallel_config
from sklearn.base import clone
from tools import LOADERS, Table, cpu_seconds_of, options, save

import skhash
from skhash import NeighborHash, linear
from skhash.quantization import LinearDecoder

N_BITS, WARM_ROWS = 64, 300
QUANTIZER = skhash.AdditiveQuantizer(N_BITS // 8)
SEARCH = {"metric": "cosine", "rerank": 100, "vectors": True}
ENCODERS = ["ITQHash", "PCAHash", "SGHEncoder"]
OTHERS = [name for name in linear.__all__ if name not in ENCODERS]
METHODS = {
    **{name: getattr(skhash, name)() for name in ENCODERS},
    "NeighborHash": NeighborHash(),
    "NeighborHash, nested=False": NeighborHash(nested=False),
    "NeighborHash, linear": NeighborHash(hidden_layer_sizes=()),
    "StochasticAutoencoderHash": skhash.StochasticAutoencoderHash(decoder="gaussian"),
    **{name: getattr(skhash, name)() for name in ("SupervisedHash", "DualHashEncoder")},
    **{name: getattr(linear, name)() for name in OTHERS},
    "AdditiveQuantizer": QUANTIZER,
    "LinearDecoder": LinearDecoder(n_alternations=6),
    "HashedNeighbors(8), README": skhash.HashedNeighbors(QUANTIZER, **SEARCH),
    "SBNClassifier": skhash.SBNClassifier(),
}


def seconds_of_fit(method, X, y):
    """Return the processor time of the fit of a clone."""
    method = clone(method)
    if "random_state" in method.get_params():
        method.set_params(random_state=0)
    if isinstance(method, NeighborHash):
        y = None
    elif isinstance(method, LinearDecoder):
        y = skhash.ITQHash(N_BITS, random_state=0).fit(X).transform(X)
    return cpu_seconds_of(method.fit, X, y)[0]


def main():
    data = {"data": "minilm", "data_home": None}
    parser = options(__doc__, rows=[2500, 10_000], methods=METHODS, **data)
    settings = parser.parse_args()
    data = LOADERS[settings.data](data_home=settings.data_home)
    order = np.random.default_rng(0).permutation(len(data.train))
    X, y = data.train[order].astype("float32"), data.train_labels[order]
    torch.set_num_threads(1)
    sizes = {f"{n:,} rows, s": ".2f" for n in settings.rows}
    table = Table({"fit": "", **sizes}).printed()
    with parallel_config(n_jobs=1):
        for name in settings.methods:
            method = METHODS[name]
            seconds_of_fit(method, X[:WARM_ROWS], y[:WARM_ROWS])
            seconds = [seconds_of_fit(method, X[:n], y[:n]) for n in settings.rows]
            table.add(name, *seconds)
    about = f"{settings.data}, {X.shape[1]} columns to {N_BITS} bits, one thread"
    save(settings.output, {"Fits": table}, data=about, seeds=[0])


if __name__ == "__main__":
    main()
