"""Retrieval metrics, in expectation over ties, and scorers."""

from skhash.metrics._displays import (
    DistanceHistogramDisplay,
    HammingPrecisionRecallDisplay,
    PrecisionAtKDisplay,
)
from skhash.metrics._found import search_recall_score
from skhash.metrics._hamming import (
    mean_average_precision_score,
    ndcg_at_k_score,
    precision_at_k_score,
    recall_at_k_score,
)
from skhash.metrics._neighbors import neighbor_recall_score, true_neighbors
from skhash.metrics._quantization import quantization_error
from skhash.metrics._radius import (
    hamming_distance_histogram,
    hamming_precision_recall_curve,
    precision_within_radius_score,
)
from skhash.metrics._scorer import (
    make_neighbor_recall_scorer,
    make_retrieval_scorer,
    retrieval_scorer,
)
from skhash.metrics._separability import class_distances, separability_score

__all__ = [
    "DistanceHistogramDisplay",
    "HammingPrecisionRecallDisplay",
    "PrecisionAtKDisplay",
    "class_distances",
    "hamming_distance_histogram",
    "hamming_precision_recall_curve",
    "make_neighbor_recall_scorer",
    "make_retrieval_scorer",
    "mean_average_precision_score",
    "ndcg_at_k_score",
    "neighbor_recall_score",
    "precision_at_k_score",
    "precision_within_radius_score",
    "quantization_error",
    "recall_at_k_score",
    "retrieval_scorer",
    "search_recall_score",
    "separability_score",
    "true_neighbors",
]
