"""A folder of Parquet files as codes, and their search, by workers of Ray or of Spark.

    python examples/integrations/parquet_codes.py ray VECTORS ENCODER CODES
    python examples/integrations/parquet_codes.py spark VECTORS ENCODER CODES

VECTORS has files with the columns ``id``, integers, and ``x``, lists of numbers;
ENCODER is what ``encoder.save`` wrote, and CODES is a new folder. Each worker loads the
encoder once. Workers that die lose nothing: their batches are encoded again.

With ``--queries queries.npy`` the files are then searched where they are, an index a
file, and the ids of the ten nearest are printed, a line a query.
"""

import argparse
from pathlib import Path

import numpy as np
import pyarrow as pa
from pyarrow import compute, parquet

import skhash
from skhash import HammingNeighbors
from skhash.export import to_arrow
from skhash.neighbors import merge_neighbors

BATCH_ROWS = 50_000


def encode(table, encoder):
    """Return an Arrow table of the ids and the packed codes of vectors."""
    width, numbers = encoder.n_features_in_, table["x"].type.value_type
    rows = compute.list_flatten(table["x"].cast(pa.list_(numbers, width)))
    codes = encoder.transform_packed(rows.to_numpy().reshape(-1, width))
    return to_arrow(codes, ids=table["id"].to_numpy())


def search_file(path, queries, k):
    """Return distances and ids of the k nearest codes in a file."""
    table = parquet.read_table(path).sort_by("id")
    width = queries.shape[1]
    data = table["code"].cast(pa.binary(width)).combine_chunks().buffers()[1]
    codes = np.frombuffer(data, np.uint8, len(table) * width).reshape(-1, width)
    index = HammingNeighbors(packed=True, n_jobs=1)
    index.fit(codes, ids=table["id"].to_numpy())
    return index.kneighbors(queries, min(k, len(table)), return_ids=True)


class Ray:
    """Ray Data encodes, and tasks search."""

    def __init__(self, workers=2):
        import ray

        self.ray = ray
        ray.init(num_cpus=workers, log_to_driver=False)

    def encode(self, vectors, encoder, codes, encode=encode):
        """Write a file of codes for each part; the encoder is in shared memory."""
        get, loaded = self.ray.get, self.ray.put(skhash.load(encoder))
        rows = self.ray.data.read_parquet(vectors).map_batches(
            lambda table: encode(table, get(loaded)),
            batch_format="pyarrow",
            batch_size=BATCH_ROWS,
        )
        rows.write_parquet(codes)

    def search(self, paths, queries, k):
        """Return the answers of all files."""
        search, queries = self.ray.remote(search_file), self.ray.put(queries)
        return self.ray.get([search.remote(path, queries, k) for path in paths])


class Spark:
    """Arrow batches are encoded by mapInArrow, and files are searched by a map."""

    def __init__(self, workers=2):
        from pyspark.sql import SparkSession

        # On one machine a task is tried once, unless the second number says more.
        builder = SparkSession.builder.master(f"local[{workers}, 4]")
        batch = "spark.sql.execution.arrow.maxRecordsPerBatch"
        self.session = builder.config(batch, BATCH_ROWS).getOrCreate()

    def encode(self, vectors, encoder, codes, encode=encode):
        """Write a file of codes for each part."""
        schema = pa.schema([("id", pa.int64()), ("code", pa.binary())])

        def encode_part(batches):
            loaded = skhash.load(encoder)
            for batch in batches:
                table = encode(pa.Table.from_batches([batch]), loaded)
                yield from table.cast(schema).to_batches()

        rows = self.session.read.parquet(vectors)
        rows.mapInArrow(encode_part, "id long, code binary").write.parquet(codes)

    def search(self, paths, queries, k):
        """Return the answers of all files."""
        parts = self.session.sparkContext.parallelize(paths, len(paths))
        return parts.map(lambda path: search_file(path, queries, k)).collect()


def main(encode=encode):
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("engine", choices=["ray", "spark"])
    for name in ("vectors", "encoder", "codes"):
        parser.add_argument(name, type=lambda path: str(Path(path).resolve()))
    parser.add_argument("--queries", type=Path)
    args = parser.parse_args()
    engine = {"ray": Ray, "spark": Spark}[args.engine]()
    engine.encode(args.vectors, args.encoder, args.codes, encode)
    if args.queries:
        paths = sorted(map(str, Path(args.codes).glob("*.parquet")))
        queries = skhash.load(args.encoder).transform_packed(np.load(args.queries))
        answers = engine.search(paths, queries, 10)
        _, ids = merge_neighbors(answers, n_neighbors=10)
        print("\n".join(" ".join(map(str, row)) for row in ids.tolist()))


if __name__ == "__main__":
    main()
