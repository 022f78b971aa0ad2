"""Export of codes to other engines, with the same neighbours as in our indexes."""

from skhash.export._arrow import from_arrow, to_arrow
from skhash.export._bytes import from_int8, reverse_bits, to_int8
from skhash.export._engines import to_faiss, to_sqlite_vec, to_usearch
from skhash.export._tables import score_tables
from skhash.export._text import bit_strings, to_pgvector

__all__ = [
    "bit_strings",
    "from_arrow",
    "from_int8",
    "reverse_bits",
    "score_tables",
    "to_arrow",
    "to_faiss",
    "to_int8",
    "to_pgvector",
    "to_sqlite_vec",
    "to_usearch",
]
