"""Codes for other engines: the same neighbours there as in our own indexes."""

from skhash.export._arrow import from_arrow, to_arrow
from skhash.export._bytes import from_int8, reverse_bits, to_int8
from skhash.export._decoder import (
    ExportedDecoder,
    decoder_from_arrow,
    decoder_to_arrow,
    score_tables,
)
from skhash.export._engines import to_faiss, to_sqlite_vec, to_usearch
from skhash.export._source import read_source
from skhash.export._text import bit_strings, to_pgvector

__all__ = [
    "ExportedDecoder",
    "bit_strings",
    "decoder_from_arrow",
    "decoder_to_arrow",
    "from_arrow",
    "from_int8",
    "read_source",
    "reverse_bits",
    "score_tables",
    "to_arrow",
    "to_faiss",
    "to_int8",
    "to_pgvector",
    "to_sqlite_vec",
    "to_usearch",
]
