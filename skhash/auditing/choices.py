"""The choices among the rows of an audit, and the recommended one."""

from dataclasses import dataclass

from skhash.auditing.measure import AuditRow

# Of each search: the fields of a row for its recall and its bytes of a vector.
SEARCHES = {
    "hamming": ("recall", "code_bytes"),
    "asymmetric": ("recall_asymmetric", "bytes_per_vector"),
}
# Vectors of a database in which what is kept once weighs nothing.
MANY = 10**15
# Names of searches in texts.
SEARCH_NAMES = {"hamming": "Hamming distance", "asymmetric": "uncompressed queries"}


@dataclass(frozen=True)
class Choice:
    """A row, one of its measured searches, and the cost of that.

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
        """Return the bytes in memory of an index of `n_vectors` vectors."""
        return n_vectors * self.n_bytes + self.decoder_bytes

    @property
    def queries_per_second(self) -> float | None:
        """The speed of its search; None for engines that were not timed."""
        if self.search == "hamming":
            return self.row.search_per_second
        return self.row.asymmetric_per_second


def choices_of(rows, rescored) -> list[Choice]:
    """Return all choices: each measured search of each row."""
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


def recommend(rows, peers, settings) -> tuple[Choice, str, list[str]]:
    """Return the best choice among rows, the reason, and sentences on others."""
    k, rescore, target = (settings[name] for name in ("k", "rescore", "target_recall"))
    n_rows, rescored = settings["n_rows"], rescore > k
    own, others = choices_of(rows, rescored), choices_of(peers, rescored)
    best = choose(own, target, n_rows)
    goal = f"{100 * target:g}% of the "
    goal += "true neighbour" if k == 1 else f"{k} true neighbours"
    goal += f" after re-ranking {rescore} candidates" * rescored
    alternatives = [_for_more_vectors(best, own, target)]
    if rescored:
        alone = choices_of(rows, False), choices_of(peers, False)
        alternatives.append(_without_vectors(*alone, target, n_rows))
    if others:
        alternatives.append(_of_peers(best, own, others, target, n_rows))
    return best, _reason(best, own, goal, target), [*filter(None, alternatives)]


def _reason(best, choices, goal, target) -> str:
    if best.recall < target:
        return (
            f"the best recall of all, although none reaches {goal}: try more bits or a "
            "larger rescore"
        )
    reason = f"the least memory that reaches {goal}"
    reached = [one for one in choices if one.recall >= target and one is not best]
    cost = best.n_bytes, best.decoder_bytes
    rivals = [one for one in reached if (one.n_bytes, one.decoder_bytes) == cost]
    if rivals:
        second = max(rivals, key=lambda choice: choice.recall)
        reason += f"; next comes {second.row.method} with {second.recall:.3f}"
    if best.recall - 2 * best.error < target:
        reason += (
            f"; but it is within two standard errors of {100 * target:g}%, so with "
            "other queries it may fall short"
        )
    return reason


def _for_more_vectors(best, choices, target, until=None) -> str | None:
    """Say which choice is better for a larger database, as decoders weigh less.

    until : Choice, which is again better for a still larger one
    """
    later = choose(choices, target, MANY)
    first = _pays_from(best, later)
    last = None if until is None else _pays_from(later, until)
    if best.recall < target or first is None or (last is not None and last <= first):
        return None
    span = f"From {first:,} " + (
        "vectors on" if last is None else f"to {last:,} vectors"
    )
    return f"{span}, this needs less memory: {later}."


def _pays_from(before, after) -> int | None:
    """Return from how many vectors on `after` needs no more memory; None is never."""
    saved = before.n_bytes - after.n_bytes
    once = after.decoder_bytes - before.decoder_bytes
    return -(-once // saved) if saved > 0 else None


def _of_peers(best, own, peers, target, n_vectors) -> str:
    """Say whether another engine is better now, or for a larger database."""
    better = choose([best, *peers], target, n_vectors)
    if better is not best:
        return f"Another engine does better than the recommendation: {better}."
    engines = {
        method: [best, *(peer for peer in peers if peer.row.method == method)]
        for method in dict.fromkeys(peer.row.method for peer in peers)
    }
    until = choose(own, target, MANY)
    later = [_for_more_vectors(best, it, target, until) for it in engines.values()]
    if any(later):
        return " ".join(
            ["For more vectors another engine does better.", *filter(None, later)]
        )
    as_small = [peer for peer in peers if peer.n_bytes <= best.n_bytes]
    richest = max([best, *as_small], key=lambda choice: choice.recall)
    if richest is not best:
        return f"Another engine finds more at no more bytes a vector: {richest}."
    return "No other engine that was measured does better than the recommendation."


def _without_vectors(choices, peers, target, n_vectors) -> str:
    """Say which choice is best if the float vectors are not kept."""
    best = choose(choices, target, n_vectors)
    line = f"Without re-ranking: {best}."
    if best.recall < target:
        goal = f"{100 * target:g}%"
        line = f"Without re-ranking no code reaches {goal}; the best: {best}."
    better = choose([best, *peers], target, n_vectors)
    return line if better is best else f"{line} Another engine does better: {better}."
