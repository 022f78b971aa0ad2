import numpy as np
import pytest

from skhash.datasets import RetrievalData

X = np.zeros((4, 3), dtype=np.float32)


def bundle(**parts):
    parts = {"train": X, "database": X, "query": X[:2]} | parts
    return RetrievalData(**({"name": "toy", "metric": "euclidean"} | parts))


@pytest.mark.parametrize(
    ("parts", "message"),
    [
        ({"metric": "angular"}, "one of euclidean.*'angular'"),
        ({"query": X[:, :2]}, r"query.*\(4, 2\).*database.*\(4, 3\)"),
        ({"train_labels": np.zeros(3)}, r"train.*\(4, 3\).*3 labels"),
        ({"true_neighbors": np.zeros((3, 1), int)}, r"\(3, 1\).*2 queries"),
        ({"true_neighbors": np.zeros((2, 1))}, "float64"),
        ({"true_neighbors": np.array([[0], [4]])}, "below 4"),
        ({"true_neighbors": np.array([[0], [-1]])}, "below 4"),
        ({"true_distances": np.zeros((2, 1))}, r"\(2, 1\), but .* has \(\)"),
    ],
)
def test_parts_that_do_not_fit_are_named_with_their_numbers(parts, message):
    with pytest.raises(ValueError, match=f"toy: .*{message}"):
        bundle(**parts)
