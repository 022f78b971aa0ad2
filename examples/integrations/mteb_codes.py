"""Learned codes in mteb: a wrapper of models, beside mteb's own `CompressionWrapper`.

    python examples/integrations/mteb_codes.py --data minilm \\
        --output docs/results/mteb.md

The corpus of a retrieval task becomes codes, and counts as what these decode to; the
queries stay uncompressed. A task here are the rows of a data set with labels, of which
those of the same label are relevant: the "texts" are numbers of rows, and the "model"
looks their embeddings up, so that nothing is downloaded.
"""

import sys
from pathlib import Path

import mteb
import numpy as np
from datasets import Dataset
from mteb.abstasks.retrieval import AbsTaskRetrieval
from mteb.abstasks.task_metadata import TaskMetadata
from mteb.models import CompressionWrapper, ModelMeta
from mteb.models.abs_encoder import AbsEncoder
from mteb.types import OutputDType, PromptType
from sklearn.preprocessing import normalize

from skhash import AdditiveQuantizer

sys.path.append(str(Path(__file__).resolve().parents[1] / "benchmarks"))
import tools  # noqa: E402

TABLE = "corpus | bytes a row :, | queries | nDCG@10 :.4f"


class LearnedCompression(CompressionWrapper):
    """A model whose corpus is kept as the codes of a fitted quantizer."""

    def __init__(self, model, quantizer):
        self.model, self.quantizer = model, quantizer

    def encode(self, inputs, *, prompt_type=None, **settings):
        """Return embeddings: of a corpus those that its codes decode to."""
        embeddings = self.model.encode(inputs, prompt_type=prompt_type, **settings)
        if prompt_type is PromptType.query:
            return embeddings
        codes = self.quantizer.transform(normalize(embeddings))
        return self.quantizer.inverse_transform(codes)


class Rows(AbsEncoder):
    """A model that has seen all texts, which are numbers of rows."""

    def __init__(self, rows):
        self.rows = rows
        self.mteb_model_meta = ModelMeta.create_empty({"name": "local/rows"})

    def encode(self, inputs, **settings):
        """Return the rows of the numbers."""
        return self.rows[[int(text) for batch in inputs for text in batch["text"]]]


class SameLabel(AbsTaskRetrieval):
    """Of the rows of a database, find those of the query's label."""

    metadata = TaskMetadata(
        name="SameLabel",
        description="Rows of the label of the query.",
        type="Retrieval",
        dataset={"path": "local", "revision": "local"},
        main_score="ndcg_at_10",
        eval_langs=["eng-Latn"],
    )

    def __init__(self, data, n_queries):
        super().__init__()
        n, labels = len(data.database), data.query_labels[:n_queries, None]
        # mteb's int8 divides by the range of each column.
        parts = data.database, data.query[:n_queries]
        varied = np.logical_and(*(np.ptp(part, axis=0) > 0 for part in parts))
        self.rows = np.concatenate(parts)[:, varied]
        ids = [str(i) for i in range(n + len(labels))]
        texts = [{"id": i, "text": i, "title": ""} for i in ids]
        relevant = labels == data.database_labels
        relevant_docs = {
            i: {ids[j]: 1 for j in np.flatnonzero(own)}
            for i, own in zip(ids[n:], relevant, strict=True)
        }
        corpus, queries = map(Dataset.from_list, (texts[:n], texts[n:]))
        test = {"corpus": corpus, "queries": queries, "relevant_docs": relevant_docs}
        self.dataset = {"default": {"test": test | {"top_ranked": None}}}
        self.data_loaded = True


def score(model, task):
    """Return nDCG@10, as mteb computes it."""
    (result,) = mteb.evaluate(model, task, cache=None, show_progress_bar=False)
    return result.get_score()


def main():
    sizes = {"queries": 1000, "bytes": [8, 16, 32]}
    parser = tools.options(__doc__, data="digits", data_home=None, **sizes)
    args = parser.parse_args()
    data = tools.LOADERS[args.data](data_home=args.data_home)
    task = SameLabel(data, args.queries)
    database, width = task.rows[: len(data.database)], task.rows.shape[1]
    table = tools.Table(TABLE).printed()
    table.add("floats", 4 * width, "floats", score(Rows(task.rows), task))
    for kind, size in ((OutputDType.INT8, width), (OutputDType.BINARY, -(-width // 8))):
        found = score(CompressionWrapper(Rows(task.rows), kind), task)
        table.add(f"mteb, {kind.value}", size, "compressed, too", found)
    for n_bytes in args.bytes:
        quantizer = AdditiveQuantizer(n_bytes).fit(normalize(database))
        wrapped = LearnedCompression(Rows(task.rows), quantizer)
        table.add("skhash", n_bytes, "floats", score(wrapped, task))
    title = f"{tools.TITLES[args.data]}, mteb {mteb.__version__}"
    tools.save(args.output, {"nDCG@10": table}, seeds=[0], data=title)


if __name__ == "__main__":
    main()
