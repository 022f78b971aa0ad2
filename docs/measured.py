"""Pages compute these from the results of benchmarks."""

import json
import re
from pathlib import Path

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
BYTES = r"^\| skhash (?:AdditiveQuantizer|LinearDecoder, 8-bit blocks) .*"


def byte_codes() -> str:
    """Return, as JSON, the codes of bytes by data set, from the shortest one on."""
    parts = (RESULTS / "bytes.md").read_text("utf-8").split("<summary>")[1:]
    found = {}
    for part in parts:
        title, best = part.partition("</summary>")[0], {}
        for line in re.findall(BYTES, part, re.MULTILINE):
            _, code, search, _, alone, ranked = line.split(" | ")[:6]
            entry = dict(
                code_bytes=int(code),
                search_bytes=int(search),
                alone=float(alone),
                ranked=float(ranked),
            )
            other = best.setdefault(int(search), entry)
            best[int(search)] = max(entry, other, key=lambda one: one["ranked"])
        if title in SEARCHED:
            codes = [best[n_bytes] for n_bytes in sorted(best)]
            found[title] = {"n": SEARCHED[title], "codes": codes}
    return json.dumps(found)
