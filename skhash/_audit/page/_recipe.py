"""What to type next, with the user's own file names."""

import shlex

CODES = "codes.npy"


def steps(result, vectors, folder) -> list[tuple[str, str]]:
    """Return what is done next: what for, and the command or the Python.

    vectors, folder : str or None
        The file of the vectors, and where encoder and decoder were saved.
    """
    if folder is None:
        return [
            ("Make the search from all vectors X, in Python:", _fitted(result.usage))
        ]
    vectors = vectors or "VECTORS.npy"
    encoder = f"{folder}/encoder"
    command = shlex.join(["skhash", "encode", encoder, vectors, CODES, "--packed"])
    if result.search == "hamming":
        return [
            ("Encode all vectors:", command),
            ("Search them in Python:", _by_hamming(result, vectors, encoder)),
        ]
    return [("Search in Python:", _by_decoder(result, vectors, folder))]


def _fitted(usage) -> str:
    return (
        "from skhash import *\n"
        "from skhash.linear import *\n\n"
        f"search = {usage}\n"
        "search.fit(X)\n"
        "distances, positions = search.kneighbors(queries)"
    )


def _by_hamming(result, vectors, encoder) -> str:
    k, rescore, metric = (result.settings[key] for key in ("k", "rescore", "metric"))
    name = "AsymmetricNeighbors" if result.keeps_vectors else "HammingNeighbors"
    lines = [
        "import numpy as np",
        f"from skhash import {name}, load",
        "from skhash.datasets import open_vectors",
        *_imports(result),
        "",
        f"X = open_vectors({vectors!r})",
        f"encoder, codes = load({encoder!r}), np.load({CODES!r})",
        "queries = X[:5]  # yours",
        "asked = encoder.transform_packed(queries)",
    ]
    if not result.keeps_vectors:
        count = rescore if result.is_rescored else k
        lines += [
            f"index = HammingNeighbors({count}, packed=True).fit(codes)",
            "distances, positions = index.kneighbors(asked)",
        ]
        return "\n".join([*lines, *_ranked_again(result)])
    options = f"{k}, n_candidates={rescore}, metric={metric!r}, packed=True"
    return "\n".join(
        [
            *lines,
            f"index = AsymmetricNeighbors({options})",
            "index.fit(codes, vectors=X)",
            "distances, positions = index.kneighbors(queries, codes=asked)",
        ]
    )


def _by_decoder(result, vectors, folder) -> str:
    k, rescore, metric = (result.settings[key] for key in ("k", "rescore", "metric"))
    count = f"{rescore if result.is_rescored else k}"
    if result.keeps_vectors:
        count = f"{k}, n_candidates={rescore}"
    given = ["codes", "decoder=decoder"]
    given += ["vectors=X"] if result.keeps_vectors else []
    given += (
        ["errors=decoder.reconstruction_error(X, codes)"]
        if metric == "euclidean"
        else []
    )
    normalize = metric == "cosine"
    lines = [
        "from skhash import AsymmetricNeighbors, load",
        "from skhash.datasets import open_vectors",
        *_imports(result),
        *["from sklearn.preprocessing import normalize"] * normalize,
        "",
        f"X = open_vectors({vectors!r})",
        *["X = normalize(X)"] * normalize,
        f"encoder, decoder = load({folder + '/encoder'!r}), "
        f"load({folder + '/decoder'!r})",
        "codes = decoder.refine(X, encoder.transform(X))",
        f"index = AsymmetricNeighbors({count}, metric={metric!r})",
        f"index.fit({', '.join(given)})",
        "queries = X[:5]  # yours",
        "scores, positions = index.kneighbors(queries)",
    ]
    return "\n".join([*lines, *_ranked_again(result)])


def _by_hand(result) -> bool:
    """Say whether candidates are ranked outside of the index: by sparse vectors."""
    return result.is_rescored and not result.keeps_vectors


def _imports(result) -> list[str]:
    return ["from skhash.metrics import true_neighbors"] * _by_hand(result)


def _ranked_again(result) -> list[str]:
    """Return lines that rank candidates by the vectors where the index does not."""
    k, metric = result.settings["k"], result.settings["metric"]
    return [
        "positions = [  # the candidates, ranked again by the vectors",
        f"    near[true_neighbors(queries[[i]], X[near], {k}, metric={metric!r})[0]]",
        "    for i, near in enumerate(positions)",
        "]",
    ] * _by_hand(result)
