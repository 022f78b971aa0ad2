"""`semantic_search_skhash`, as `semantic_search_faiss` of sentence-transformers is.

    quantizer = AdditiveQuantizer(32).fit(embeddings)
    codes = quantizer.transform(embeddings)  # uint8, 32 bytes an embedding
    hits, seconds = semantic_search_skhash(queries, codes, quantizer=quantizer, top_k=5)
    quantizer.save("folder")

The embeddings have unit length. Where the others have `corpus_precision`, `ranges` and
`calibration_embeddings`, which every call has to be given alike, the fitted quantizer
has them all. Queries stay uncompressed, so there is nothing to rescore.
"""

import time

from skhash import AsymmetricNeighbors


def semantic_search_skhash(
    query_embeddings,
    corpus_embeddings=None,
    corpus_index=None,
    *,
    quantizer,
    top_k=10,
    output_index=False,
):
    """Search a corpus of codes.

    Parameters
    ----------
    query_embeddings : ndarray of shape (n_queries, n_features)
    corpus_embeddings : ndarray of shape (n, n_bytes), uint8, default=None
        What `quantizer.transform` returned.
    corpus_index : AsymmetricNeighbors, default=None
        In place of the corpus, an index that an earlier call returned.
    quantizer : AdditiveQuantizer
    top_k : int, default=10
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
        corpus_index.fit(corpus_embeddings, decoder=quantizer)
    start, k = time.time(), min(top_k, corpus_index.n_samples_fit_)
    distances, found = corpus_index.kneighbors(query_embeddings, k)
    seconds = time.time() - start
    results = [
        [{"corpus_id": i, "score": score} for i, score in zip(*pair, strict=True)]
        for pair in zip(found.tolist(), (1 - distances).tolist(), strict=True)
    ]
    return (results, seconds, corpus_index) if output_index else (results, seconds)
