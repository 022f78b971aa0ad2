"""Export of codes to other engines, whose exact searches find the same neighbours."""

from skhash.export._engines import reverse_bits, to_faiss, to_sqlite_vec, to_usearch
from skhash.export._source import score_tables
from skhash.export._tables import bit_strings, to_arrow, to_pgvector

__all__ = [
    "bit_strings",
    "reverse_bits",
    "score_tables",
    "to_arrow",
    "to_faiss",
    "to_pgvector",
    "to_sqlite_vec",
    "to_usearch",
]
