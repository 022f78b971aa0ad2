"""`semantic_search_skhash` by brute force."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.metrics.pairwise import cosine_similarity
from sklearn.preprocessing import normalize

import skhash

K = 7


@pytest.fixture(scope="module")
def search(load):
    return load("semantic_search").semantic_search_skhash


@pytest.fixture(scope="module")
def made(vectors):
    unit = normalize(vectors)
    quantizer = skhash.AdditiveQuantizer(4).fit(unit)
    return quantizer, quantizer.transform(unit)


def test_scores_are_cosines_of_what_is_decoded(search, made, queries, tmp_path):
    quantizer, codes = made
    quantizer.save(tmp_path)
    settings = {"quantizer": skhash.load(tmp_path), "top_k": K}
    results, _, index = search(queries, codes, output_index=True, **settings)
    names = "score", "corpus_id"
    parts = ([[hit[name] for hit in row] for row in results] for name in names)
    scores, found = map(np.array, parts)
    truth = cosine_similarity(queries, quantizer.inverse_transform(codes))
    # The index keeps the length of what is decoded in a byte: to some 0.4 %.
    assert_allclose(np.take_along_axis(truth, found, axis=1), scores, rtol=1e-2)
    assert_allclose(scores, -np.sort(-truth, axis=1)[:, :K], rtol=1e-2)
    again, _ = search(queries, corpus_index=index, **settings)
    assert again == results


def test_few_are_found_where_few_are(search, made, queries):
    quantizer, codes = made
    results, _ = search(queries, codes[:3], quantizer=quantizer)
    assert {len(row) for row in results} == {3}
    with pytest.raises(ValueError, match="either corpus_embeddings or corpus_index"):
        search(queries, quantizer=quantizer)
