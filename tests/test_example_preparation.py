"""`examples/data/prepare.py` on tiny texts, networks and pictures."""

import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch

sys.path.insert(0, str(Path(__file__).parents[1] / "examples"))

from data import load_sift, prepare  # noqa: E402

# Pictures of 4 descriptors each, of which all have the first.
ROWS = np.random.default_rng(0).integers(0, 256, (9, 4, 128), dtype=np.uint8)
ROWS[:, 0] = 7


def test_passages_are_distinct_runs_of_12_words():
    words = [f"w{number}" for number in range(30)]
    texts = [" ".join(words), " ".join(words[:17]), " ".join(words[:16]), "a b c d"]
    first, second, last, rest = (
        " ".join(words[part]) for part in np.s_[:12, 12:24, 24:, 12:17]
    )
    assert prepare.passages_of(texts) == [first, second, last, rest]
    assert prepare.passages_of(texts, without=[second, rest]) == [first, last]


def test_embeddings_are_those_of_the_layers_of_torch():
    config = {"num_hidden_layers": 2, "num_attention_heads": 3, "layer_norm_eps": 1e-3}
    width, n_tokens = 6, 5
    torch.manual_seed(0)
    sizes = {"word": 11, "position": n_tokens + 1, "token_type": 2}
    weights = {
        f"embeddings.{name}_embeddings.weight": torch.randn(size, width)
        for name, size in sizes.items()
    }
    norm = torch.nn.LayerNorm(width, eps=1e-3)
    layers = torch.nn.TransformerEncoder(
        torch.nn.TransformerEncoderLayer(
            width, 3, 8, activation="gelu", batch_first=True, layer_norm_eps=1e-3
        ),
        num_layers=2,
        enable_nested_tensor=False,
    )
    for parameter in [*norm.parameters(), *layers.parameters()]:
        torch.nn.init.normal_(parameter)
    state = {"embeddings.LayerNorm": norm.state_dict()}
    for number, layer in enumerate(layers.eval().layers):
        attention = layer.self_attn.state_dict()
        parts = (attention[f"in_proj_{kind}"].chunk(3) for kind in ("weight", "bias"))
        own = {
            f"attention.self.{name}": {"weight": weight, "bias": bias}
            for name, weight, bias in zip(
                ("query", "key", "value"), *parts, strict=True
            )
        }
        own["attention.output.dense"] = layer.self_attn.out_proj.state_dict()
        own["attention.output.LayerNorm"] = layer.norm1.state_dict()
        own["intermediate.dense"] = layer.linear1.state_dict()
        own["output.dense"] = layer.linear2.state_dict()
        own["output.LayerNorm"] = layer.norm2.state_dict()
        state |= {f"encoder.layer.{number}.{name}": it for name, it in own.items()}
    for name, parameters in state.items():
        weights |= {f"{name}.{kind}": it for kind, it in parameters.items()}
    ids = torch.randint(11, (4, n_tokens))
    words, places, types = (
        weights[f"embeddings.{name}_embeddings.weight"] for name in sizes
    )
    means = layers(norm(words[ids] + places[:n_tokens] + types[0])).mean(dim=1)
    expected = means / means.norm(dim=1, keepdim=True)
    torch.testing.assert_close(
        prepare.embed(ids, weights, config), expected.detach(), rtol=1e-4, atol=1e-5
    )


def test_texts_keep_their_places_though_their_lengths_go_together(monkeypatch):
    model = object.__new__(prepare.MiniLM)
    model.config, model.weights = {"hidden_size": 2}, None
    model.tokenizer = SimpleNamespace(
        encode_batch=lambda texts: [
            SimpleNamespace(ids=list(map(ord, t))) for t in texts
        ]
    )
    monkeypatch.setattr(prepare, "BATCH_TOKENS", 4)
    monkeypatch.setattr(
        prepare, "embed", lambda ids, *_: torch.stack([ids[:, 0], ids[:, -1]], dim=1)
    )
    texts = ["ab", "c", "def", "gh", "ijk", "l", "mn", "op", "qr"]
    expected = [[ord(text[0]), ord(text[-1])] for text in texts]
    np.testing.assert_array_equal(model.encode(texts), expected)


def test_of_each_picture_the_largest_file_is_taken(tmp_path):
    sizes = {
        "wallpapers/Hill/contents/images/10x20.png": 2,
        "wallpapers/Hill/contents/images/30x60.png": 6,
        "wallpapers/Hill/contents/images_dark/30x60.png": 9,
        "wallpapers/Hill/contents/screenshot.png": 9,
        "backgrounds/Hill.jpg": 1,
        "backgrounds/Herd.jpg": 3,
        "backgrounds/Herd_384x216.jpg": 5,
        "backgrounds/field-l.webp": 1,
        "backgrounds/field-d.webp": 3,
        "backgrounds/drawn.svg": 9,
    }
    for name, size in sizes.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(bytes(size))
    found = prepare.pictures_in(tmp_path)
    assert {str(path.relative_to(tmp_path)) for path in found} == {
        "wallpapers/Hill/contents/images/30x60.png",
        "backgrounds/Hill.jpg",
        "backgrounds/Herd_384x216.jpg",
        "backgrounds/field-l.webp",
    }


def test_pictures_of_the_database_are_in_no_other_part(monkeypatch, tmp_path):
    pictures = {f"{number}.png": rows for number, rows in enumerate(ROWS)}
    (tmp_path / "wallpapers").mkdir()
    for name in pictures:
        (tmp_path / "wallpapers" / name).touch()
    monkeypatch.setattr(prepare, "descriptors", lambda path: pictures[path.name])
    monkeypatch.setattr(prepare, "N_TRAIN", 5)
    monkeypatch.setattr(prepare, "N_QUERIES", 3)
    prepare.make_sift(tmp_path)
    found = load_sift(None, n_train=4, data_home=tmp_path)
    assert found.metric == "euclidean" and found.database.dtype == np.float32
    assert (len(found.train), len(found.query)) == (4, 3)
    of_database, of_train, of_query = (
        set(map(tuple, part)) for part in (found.database, found.train, found.query)
    )
    assert len(of_database) == len(found.database)
    assert not of_train & of_query
    places = {tuple(row): name for name, rows in pictures.items() for row in rows[1:]}
    held_out = {places[row] for row in (of_train | of_query) & places.keys()}
    assert held_out and not held_out & {places[r] for r in of_database & places.keys()}
    assert len(load_sift(2, data_home=tmp_path).database) == 2


def test_absent_pictures_say_what_to_install(tmp_path):
    with pytest.raises(FileNotFoundError, match="apt-get download.*opencv"):
        prepare.make_sift(tmp_path)
