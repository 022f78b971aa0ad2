"""The measurements of an audit, and the code and search that they recommend."""

from dataclasses import dataclass

from skhash.auditing.measure import AuditRow

# Of each search: the recall that a row has of it, and what it holds of a vector.
SEARCHES = {
    "hamming": ("recall", "code_bytes"),
    "asymmetric": ("recall_asymmetric", "bytes_per_vector"),
}
# Their names in texts.
SEARCH_NAMES = {"hamming": "Hamming distance", "asymmetric": "real queries"}


@dataclass(frozen=True)
class Choice:
    """A row, one of the searches that were measured of it, and what that costs.

    ``n_bytes`` of a vector are in memory, and ``decoder_bytes`` once for all.
    """

    row: AuditRow
    search: str
    n_bytes: int
    decoder_bytes: int
    recall: float
    error: float

    def __str__(self) -> str:
        once = f" and {self.decoder_bytes:,} once" if self.decoder_bytes else ""
        return (
            f"{self.row.method} at {self.row.n_bits} bits by "
            f"{SEARCH_NAMES[self.search]} ({self.n_bytes} bytes a vector{once}; recall "
            f"{self.recall:.3f} +- {2 * self.error:.3f})"
        )

    def memory(self, n_vectors) -> int:
        """Return the bytes in memory of an index of so many vectors."""
        return n_vectors * self.n_bytes + self.decoder_bytes


def choices_of(rows, rescored) -> list[Choice]:
    """Return what may be chosen: each search of each row that was measured."""
    result = []
    for row in rows:
        for search, (name, size) in SEARCHES.items():
            name += "_rescored" * rescored
            recall, error = getattr(row, name), getattr(row, f"{name}_error")
            if recall is not None:
                once = row.codebook_bytes if search == "asymmetric" else 0
                n_bytes = getattr(row, size)
                result.append(Choice(row, search, n_bytes, once, recall, error))
    return result


def choose(choices, target, n_vectors) -> Choice:
    """Choose the least memory that reaches the target, and of these the best recall.

    Where none reaches it, the best recall, and of these the least memory.
    """

    def cost(choice):
        memory = choice.memory(n_vectors)
        if choice.recall < target:
            return True, -choice.recall, memory
        return False, memory, -choice.recall

    return min(choices, key=cost)


def reason_for(best, choices, goal, target) -> str:
    """Say in a sentence why a choice was made."""
    if best.recall < target:
        return (
            f"the best recall of all, although none reaches {goal}: try more bits or a "
            "larger rescore"
        )
    reason = f"the least memory that reaches {goal}"
    size = best.n_bytes, best.decoder_bytes
    rivals = [
        choice
        for choice in choices
        if (choice.n_bytes, choice.decoder_bytes) == size
        and choice.recall >= target
        and choice is not best
    ]
    if rivals:
        second = max(rivals, key=lambda choice: choice.recall)
        reason += f"; next comes {second.row.method} with {second.recall:.3f}"
    if best.recall - 2 * best.error < target:
        reason += (
            f"; but it is within two standard errors of {100 * target:g}%, so with "
            "other queries it may fall short"
        )
    return reason


@dataclass(frozen=True, repr=False)
class Result:
    """The data of an audit; see `AuditResult`, which draws them."""

    rows: list[AuditRow]
    choice: Choice
    reason: str
    encoder: object
    decoder: object
    settings: dict
    skipped: list[str]
    alternatives: list[str]
    evidence: object = None

    def __repr__(self) -> str:
        best = self.recommended
        return (
            f"<{type(self).__name__}: {len(self.rows)} codes measured, recommended "
            f"{best.method} at {best.n_bits} bits by {SEARCH_NAMES[self.search]}>"
        )

    @property
    def recommended(self) -> AuditRow:
        return self.choice.row

    @property
    def search(self) -> str:
        return self.choice.search

    @property
    def is_rescored(self) -> bool:
        """Whether candidates are ranked again by the float vectors."""
        return self.settings["rescore"] > self.settings["k"]

    @property
    def storage(self) -> dict:
        """Bytes that the recommended search stores.

        ``code``, ``floats`` and ``vector`` are those of one vector; ``vector`` is not
        needed in memory, and 0 without re-scoring. ``decoder`` is for all vectors.
        """
        best, code = self.choice, self.recommended.code_bytes
        vector = self.settings["float_bytes_per_vector"]
        return {
            "code": code,
            "floats": best.n_bytes - code,
            "vector": vector if self.is_rescored else 0,
            "decoder": best.decoder_bytes,
        }

    @property
    def keeps_vectors(self) -> bool:
        """Whether an index can rank candidates by the vectors, which may not be sparse.

        Where it cannot, it finds the candidates alone, `rescore` of them.
        """
        return self.is_rescored and not self.settings["sparse"]

    @property
    def usage(self) -> str:
        """Python that makes the recommended search, to be fitted to all vectors.

        Of sparse vectors it finds the candidates that are to be ranked again.
        """
        return self.usage_of(repr(self.encoder))

    def usage_of(self, encoder: str) -> str:
        """Return `usage` of an encoder that is written so."""
        settings = self.settings
        k, metric, rescore = (settings[key] for key in ("k", "metric", "rescore"))
        options = "" if metric == "euclidean" else f", metric={metric!r}"
        count = f"{rescore if self.is_rescored else k}"
        if self.keeps_vectors:
            count = f"{k}, n_candidates={rescore}"
        if self.search == "hamming" and not self.keeps_vectors:
            parts = f"HammingNeighbors({count})"
        else:
            parts = f"AsymmetricNeighbors({count}{options})"
            parts += f", decoder={self.decoder!r}" * (self.search == "asymmetric")
            parts += ", keep_vectors=True" * self.keeps_vectors
        return f"HashedNeighbors({encoder}, {parts})"

    def to_frame(self):
        """Return the rows as a pandas DataFrame, one column a measurement."""
        import pandas as pd

        return pd.DataFrame([vars(row) for row in self.rows])

    def to_dict(self) -> dict:
        """Return all but encoder and decoder as plain data, ready for JSON."""
        return {
            "settings": self.settings,
            "rows": [vars(row) for row in self.rows],
            "recommended": {
                "method": self.recommended.method,
                "n_bits": self.recommended.n_bits,
                "search": self.search,
                "bytes_per_vector": self.choice.n_bytes,
                "decoder_bytes": self.choice.decoder_bytes,
                "recall": self.choice.recall,
                "recall_error": self.choice.error,
                "reason": self.reason,
                "storage": self.storage,
                "usage": self.usage,
            },
            "alternatives": self.alternatives,
            "skipped": self.skipped,
        }

    @classmethod
    def from_rows(cls, rows, fitted, settings, skipped):
        """Choose among the rows that are fitted here, and compare with the others.

        fitted : dict of tuples (encoder, decoder), by the place of their row
        """
        k, rescore, n_rows = (settings[key] for key in ("k", "rescore", "n_rows"))
        target, rescored = settings["target_recall"], rescore > k
        mine = [rows[place] for place in fitted]
        others = [row for place, row in enumerate(rows) if place not in fitted]
        own, peers = choices_of(mine, rescored), choices_of(others, rescored)
        best = choose(own, target, n_rows)
        goal = f"{100 * target:g}% of the "
        goal += "true neighbour" if k == 1 else f"{k} true neighbours"
        goal += f" after re-scoring {rescore} candidates" * rescored
        alternatives = [_for_more_vectors(best, own, target)]
        if rescored:
            alone = choices_of(mine, False), choices_of(others, False)
            alternatives.append(_without_vectors(*alone, target, n_rows))
        alternatives.append(_of_peers(best, peers, target, n_rows))
        encoder, decoder = fitted[next(n for n in fitted if rows[n] is best.row)]
        return cls(
            rows=rows,
            choice=best,
            reason=reason_for(best, own, goal, target),
            encoder=encoder,
            decoder=decoder,
            settings=settings,
            skipped=skipped,
            alternatives=[line for line in alternatives if line],
        )


def _for_more_vectors(best, choices, target) -> str | None:
    """Say what a larger database changes: there decoders weigh less."""
    later = choose(choices, target, 10**15)
    if best.recall < target or later.n_bytes >= best.n_bytes:
        return None
    saved = best.n_bytes - later.n_bytes
    n_vectors = -(-(later.decoder_bytes - best.decoder_bytes) // saved)
    return f"From {n_vectors:,} vectors on less memory: {later}."


def _without_vectors(choices, peers, target, n_vectors) -> str:
    """Say what could be taken if the float vectors are not kept."""
    best = choose(choices, target, n_vectors)
    line = f"Without re-scoring: {best}."
    if best.recall < target:
        goal = f"{100 * target:g}%"
        line = f"Without re-scoring no encoder reaches {goal}; the best: {best}."
    better = choose([best, *peers], target, n_vectors)
    return line if better is best else f"{line} Another engine does better: {better}."


def _of_peers(best, peers, target, n_vectors) -> str | None:
    """Say whether another engine is better than the best of the encoders."""
    if not peers:
        return None
    better = choose([best, *peers], target, n_vectors)
    if better is best:
        return "No other engine that was measured does better than the recommendation."
    return f"Another engine does better than the recommendation: {better}."
