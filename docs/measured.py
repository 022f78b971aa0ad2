"""Pages compute these from the results of benchmarks."""

import json
import re
from collections import defaultdict
from pathlib import Path

import numpy as np

RESULTS = Path(__file__).parent / "results"
# Rows that were searched, as docs/benchmarks/bytes.md says.
SEARCHED = {
    "MiniLM embeddings of passages": 244_565,
    "SIFT, wallpapers": 1_000_000,
    "MiniLM sentence embeddings": 11_293,
    "Fashion-MNIST images": 30_000,
    "GloVe word vectors, 100 000": 99_000,
    "digits, 8 x 8": 1_500,
}
# Rows of skhash's codes of bytes.
BYTES = r"^\| skhash AdditiveQuantizer .*"


def byte_codes() -> str:
    """Return, as JSON, the codes of bytes by data set, from the shortest one on."""
    text = (RESULTS / "bytes.md").read_text("utf-8")
    heads = r"^(?:<summary>|\*\*)(.+?)(?:</summary>|\*\*)$"
    _, *parts = re.split(heads, text, flags=re.MULTILINE)
    found, slopes = {}, growth_slopes()
    for title, part in zip(parts[::2], parts[1::2], strict=True):
        codes = []
        for line in re.findall(BYTES, part, re.MULTILINE):
            _, code, search, _, alone, ranked = line.split(" | ")[:6]
            entry = dict(
                code_bytes=int(code),
                search_bytes=int(search),
                alone=float(alone),
                ranked=float(ranked),
            )
            codes.append(entry)
        if title in SEARCHED:
            codes.sort(key=lambda entry: entry["search_bytes"])
            slope = slopes.get(title) or np.mean([*slopes.values()], axis=0).tolist()
            found[title] = {"n": SEARCHED[title], "codes": codes, "slopes": slope}
    return json.dumps(found)


def growth_slopes() -> dict[str, list[float]]:
    """Return how recalls fall by data set: the first ten codes, and 100 candidates.

    That is by how much the arc cosine of the square root of the recall grows with the
    natural logarithm of the number of vectors, as `skhash.auditing.growth` fits it; the
    mean of all lengths of codes.
    """
    groups, slopes = defaultdict(list), defaultdict(list)
    text = (RESULTS / "growth.md").read_text("utf-8")
    row = r"^\| ([^|]+) \| (\d+) \| ([\d,]+) \| ([\d.]+) \| ([\d.]+) \|"
    for title, n_bytes, n, *recalls in re.findall(row, text, re.MULTILINE):
        recalls = [float(recall) for recall in recalls]
        groups[title, n_bytes].append([int(n.replace(",", "")), *recalls])
    for (title, _), rows in groups.items():
        sizes, *recalls = np.array(rows).T
        angles = np.arccos(np.sqrt(recalls)).T
        slopes[title].append(np.polyfit(np.log(sizes), angles, 1)[0])
    return {title: np.mean(parts, axis=0).tolist() for title, parts in slopes.items()}
