"""`semantic_search_skhash`, as `semantic_search_faiss` of sentence-transformers is.

    quantizer = Quantizer.fit(embeddings, n_bits=256)
    codes = quantizer.encode(embeddings)  # uint8, 32 bytes an embedding
    hits, seconds = semantic_search_skhash(queries, codes, quantizer=quantizer, top_k=5)
    quantizer.save("folder")

Where the others have `corpus_precision`, `ranges` and `calibration_embeddings`, which
every call has to be given alike, the fitted quantizer has them all.
"""

import time
from pathlib import Path

import numpy as np
from sklearn.preprocessing import normalize

import skhash
from skhash import AsymmetricNeighbors, HammingNeighbors, ITQHash
from skhash.codes import pack_bits, unpack_bits
from skhash.quantization import LinearDecoder


class Quantizer:
    """A fitted encoder and its decoder, for unit embeddings."""

    def __init__(self, encoder, decoder):
        self.encoder, self.decoder = encoder, decoder

    @classmethod
    def fit(cls, embeddings, n_bits=256):
        """Learn from a sample of the corpus."""
        embeddings = normalize(embeddings)
        encoder = ITQHash(n_bits, normalize=True, random_state=0).fit(embeddings)
        decoder = LinearDecoder(n_alternations=1)  # codes serve both searches
        return cls(encoder, decoder.fit(embeddings, encoder.transform(embeddings)))

    def encode(self, embeddings):
        """Return packed codes for a corpus, refined so that they decode well."""
        embeddings = normalize(embeddings)
        bits = self.encoder.transform(embeddings)
        return pack_bits(self.decoder.refine(embeddings, bits))

    def decode(self, codes):
        """Return the embeddings that packed codes stand for."""
        bits = unpack_bits(codes, self.encoder.n_bits)
        return self.decoder.inverse_transform(bits)

    def save(self, folder):
        """Write it, without pickle."""
        for name, part in vars(self).items():
            part.save(Path(folder) / name)

    @classmethod
    def load(cls, folder):
        """Load what `save` wrote."""
        names = "encoder", "decoder"
        return cls(*(skhash.load(Path(folder) / name) for name in names))


def semantic_search_skhash(
    query_embeddings,
    corpus_embeddings=None,
    corpus_index=None,
    *,
    quantizer,
    top_k=10,
    rescore=True,
    rescore_multiplier=None,
    output_index=False,
):
    """Search a corpus of codes.

    Parameters
    ----------
    query_embeddings : ndarray of shape (n_queries, n_features), or packed codes
        Packed codes, ``uint8``, are compared by Hamming distance.
    corpus_embeddings : ndarray of shape (n, n_bytes), uint8, default=None
        What `quantizer.encode` returned.
    corpus_index : AsymmetricNeighbors, default=None
        In place of the corpus, an index that an earlier call returned.
    quantizer : Quantizer
    top_k : int, default=10
    rescore : bool, default=True
        Whether embeddings are compared with what the codes decode to. Else, scores
        are Hamming distances, the smallest first.
    rescore_multiplier : int, default=None
        Compares only the ``top_k * rescore_multiplier`` codes nearest by Hamming
        distance; None compares all.
    output_index : bool, default=False

    Returns
    -------
    results : list of list of {"corpus_id": int, "score": float}
        The estimates of the cosine, the largest first.
    seconds : float
    corpus_index : AsymmetricNeighbors
        Only with `output_index`.
    """
    if (corpus_embeddings is None) == (corpus_index is None):
        raise ValueError("Give either corpus_embeddings or corpus_index.")
    if corpus_index is None:
        corpus_index = AsymmetricNeighbors(metric="cosine", packed=True)
        corpus_index.fit(corpus_embeddings, decoder=quantizer.decoder)
    k, n = min(top_k, corpus_index.n_samples_fit_), corpus_index.n_samples_fit_
    start, codes = time.time(), query_embeddings
    if query_embeddings.dtype != np.uint8:
        codes = quantizer.encoder.transform_packed(query_embeddings)
    if rescore and query_embeddings.dtype != np.uint8:
        n_candidates = min(n, k * rescore_multiplier) if rescore_multiplier else None
        corpus_index.set_params(n_candidates=n_candidates)
        scores, found = corpus_index.kneighbors(query_embeddings, k, codes=codes)
        scores = 1 - scores
    else:
        by_distance = HammingNeighbors(packed=True).fit(corpus_index.packed_codes_)
        scores, found = by_distance.kneighbors(codes, k)
    seconds = time.time() - start
    results = [
        [{"corpus_id": i, "score": score} for i, score in zip(*pair, strict=True)]
        for pair in zip(found.tolist(), scores.astype(float).tolist(), strict=True)
    ]
    return (results, seconds, corpus_index) if output_index else (results, seconds)
