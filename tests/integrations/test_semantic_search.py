"""`semantic_search_skhash` beside `semantic_search_faiss`, and by brute force."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.metrics.pairwise import cosine_similarity
from sklearn.preprocessing import normalize

from skhash.codes import unpack_bits

from .conftest import of_other_lengths

K = 7


@pytest.fixture(scope="module")
def script(load):
    return load("semantic_search")


@pytest.fixture(scope="module")
def made(script, vectors):
    quantizer = script.Quantizer.fit(vectors, n_bits=32)
    return quantizer, quantizer.encode(vectors)


def test_codes_are_refined_whatever_the_length(made, vectors):
    quantizer, codes = made
    assert_array_equal(quantizer.encode(of_other_lengths(vectors)), codes)
    unit, error = normalize(vectors), quantizer.decoder.reconstruction_error
    before = error(unit, quantizer.encoder.transform(vectors)).mean()
    assert error(unit, unpack_bits(codes, 32)).mean() < 0.9 * before


def unzipped(results):
    """Return scores and positions as arrays."""
    names = "score", "corpus_id"
    return (np.array([[hit[name] for hit in row] for row in results]) for name in names)


@pytest.mark.parametrize("multiplier", [None, 3])
def test_scores_are_cosines_of_what_is_decoded(script, made, queries, multiplier):
    quantizer, codes = made
    settings = {"quantizer": quantizer, "rescore_multiplier": multiplier}
    search = script.semantic_search_skhash
    results, _, index = search(queries, codes, top_k=K, output_index=True, **settings)
    scores, found = unzipped(results)
    truth = cosine_similarity(queries, quantizer.decode(codes))
    if multiplier:  # only the nearest by Hamming distance
        hits, _ = search(
            queries, codes, top_k=K * multiplier, rescore=False, **settings
        )
        _, candidates = unzipped(hits)
        among = np.zeros(truth.shape, dtype=bool)
        np.put_along_axis(among, candidates, True, axis=1)
        truth[~among] = -1
    # The index keeps the length of what is decoded in a byte: to some 0.4 %.
    assert_allclose(np.take_along_axis(truth, found, axis=1), scores, rtol=1e-2)
    assert_allclose(scores, -np.sort(-truth, axis=1)[:, :K], rtol=1e-2)
    again, _ = search(queries, corpus_index=index, top_k=K, **settings)
    assert again == results


def test_hamming_distances_are_those_of_sentence_transformers(script, made, queries):
    pytest.importorskip("faiss")
    theirs = pytest.importorskip(
        "sentence_transformers.util.quantization",
        reason="pip install '.[integrations]' brings sentence-transformers",
    )
    quantizer, codes = made
    asked = quantizer.encoder.transform_packed(queries)
    settings = {"top_k": K, "rescore": False}
    task = {"corpus_precision": "ubinary", **settings}
    expected, seconds = theirs.semantic_search_faiss(asked, codes, **task)
    for given in (asked, queries):
        results, own_seconds = script.semantic_search_skhash(
            given, codes, quantizer=quantizer, **settings
        )
        for mine, other in zip(unzipped(results), unzipped(expected), strict=True):
            assert_array_equal(mine, other)
        assert type(results[0][0]["score"]) is type(expected[0][0]["score"])
        assert type(own_seconds) is type(seconds)


def test_the_quantizer_carries_its_state(script, made, vectors, queries, tmp_path):
    quantizer, codes = made
    quantizer.save(tmp_path)
    loaded = script.Quantizer.load(tmp_path)
    assert_array_equal(loaded.encode(vectors), codes)
    # Few are found where few are: no sentinels.
    results, _ = script.semantic_search_skhash(queries, codes[:3], quantizer=loaded)
    assert {len(row) for row in results} == {3}
    with pytest.raises(ValueError, match="either corpus_embeddings or corpus_index"):
        script.semantic_search_skhash(queries, quantizer=loaded)
