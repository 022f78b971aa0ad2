"""The choices among the rows of an audit, and the recommended one."""

from dataclasses import dataclass

from skhash.auditing.evidence import spread
from skhash.auditing.measure import AuditRow
from skhash.auditing.texts import in_bytes, neighbors_of, short

# Names of searches in texts.
SEARCHES = {"hamming": "Hamming distance", "asymmetric": "uncompressed queries"}
# Vectors of a database in which what is kept once weighs nothing.
MANY = 10**15


@dataclass(frozen=True)
class Choice:
    """A row, and its recall and standard error, with or without re-ranking.

    ``measure`` is how tables name that recall, such as "10@100".
    """

    row: AuditRow
    recall: float
    error: float
    measure: str

    def __str__(self) -> str:
        row, size = self.row, f"{in_bytes(self.row.bytes_per_vector)} a vector"
        if row.codebook_bytes:
            size += f" and {row.codebook_bytes:,} once"
        return (
            f"{name_of(row.method, row.n_bits)} by {SEARCHES[row.search]} ({size}; "
            f"recall {self.measure} {self.recall:.3f} +- {2 * self.error:.3f})"
        )

    def memory(self, n_vectors) -> int:
        """Return the bytes in memory of an index of `n_vectors` vectors."""
        return n_vectors * self.row.bytes_per_vector + self.row.codebook_bytes


def name_of(method, n_bits=None) -> str:
    """Return the name of the codes of a method, for texts."""
    if method == "bytes":
        return f"codes of {in_bytes(n_bits // 8)}"
    return method if n_bits is None else f"{method} at {n_bits} bits"


def choices_of(rows, n_neighbors, rerank) -> list[Choice]:
    """Return all rows as choices, re-ranked unless `rerank` is None."""
    name = "recall" + "_reranked" * (rerank is not None)
    names, measure = (name, f"{name}_error"), f"{n_neighbors}@{rerank or n_neighbors}"
    return [Choice(row, *(getattr(row, n) for n in names), measure) for row in rows]


def choices_in(result, is_reranked) -> list[Choice]:
    """Return all rows of a result with their recalls, re-ranked or not."""
    k, rerank = (result.settings[name] for name in ("n_neighbors", "rerank"))
    return choices_of(result.rows, k, rerank if is_reranked else None)


def name_in(result) -> str:
    """Return the recommended method and length of a result, for texts."""
    return name_of(result.recommended.method, result.recommended.n_bits)


def ordered(result, n_front=None) -> list[AuditRow]:
    """Return the recommended row of a result, and the others by memory.

    n_front : int, default=None
        The largest number of rows to return, of those than which none finds more in as
        little memory. If there are more, they are thinned out evenly.
    """
    n, rows, most = result.settings["n_vectors"], [], -1
    choices = choices_in(result, result.is_reranked)
    for choice in sorted(choices, key=lambda c: (c.memory(n), -c.recall)):
        is_shown = n_front is None or choice.recall > most
        if is_shown and choice.row is not result.recommended:
            rows.append(choice.row)
        most = max(most, choice.recall)
    if n_front is not None:
        rows = [rows[place] for place in spread(len(rows), n_front - 1)]
    return [result.recommended, *rows]


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


def recommend(rows, peers, settings, needed) -> tuple[Choice, str, list[str]]:
    """Return the best choice among rows, the reason, and sentences on others.

    needed : the recall that was measured must reach this; more than the target where
        there will be more vectors
    """
    k, rerank, n_vectors = (settings[n] for n in ("n_neighbors", "rerank", "n_vectors"))
    target = settings["target_recall"]
    choices, engines = choices_of(rows, k, rerank), choices_of(peers, k, rerank)
    best = choose(choices, needed, n_vectors)
    goal = f"{100 * target:g}% of the {neighbors_of(settings)}"
    goal += f" after re-ranking {rerank} candidates" * (rerank is not None)
    if needed > target:
        goal += f" among {n_vectors:,} vectors, by estimate"
    alternatives = [_for_more_vectors(best, choices, needed)]
    if rerank is not None:
        alone = choices_of(rows, k, None), choices_of(peers, k, None)
        alternatives.append(_without_vectors(*alone, target, n_vectors))
    if engines:
        alternatives.append(_of_peers(best, choices, engines, needed, n_vectors))
    return best, _reason(best, choices, goal, needed), [*filter(None, alternatives)]


def _reason(best, choices, goal, target) -> str:
    if best.recall < target:
        return (
            f"the best recall of all, although none reaches {goal}: try more bits or a "
            "larger rerank"
        )
    reason = f"the least memory that reaches {goal}"
    rivals = [choice for choice in choices if _cost(choice) == _cost(best)]
    rivals = [c for c in rivals if c.recall >= target and c is not best]
    if rivals:
        second = max(rivals, key=lambda choice: choice.recall)
        reason += f"; next comes {second.row.method} with {second.recall:.3f}"
    if best.recall - 2 * best.error < target:
        reason += (
            "; but it is within two standard errors of the target, so with other "
            "queries it may fall short"
        )
    return reason


def _cost(choice):
    return choice.row.bytes_per_vector, choice.row.codebook_bytes


def _for_more_vectors(best, choices, target, until=None) -> str | None:
    """Say which choice is better for a larger database, as codebooks weigh less.

    until : Choice, which is again better for a still larger one
    """
    later = choose(choices, target, MANY)
    first = _pays_from(best, later)
    last = None if until is None else _pays_from(later, until)
    if best.recall < target or first is None or (last is not None and last <= first):
        return None
    span = "or more" if last is None else f"to {last:,}"
    return f"With {first:,} {span} vectors, this needs less memory: {later}."


def _pays_from(before, after) -> int | None:
    """Return from how many vectors on `after` needs no more memory; None is never."""
    (size, once), (new_size, new_once) = _cost(before), _cost(after)
    saved = size - new_size
    return -((once - new_once) // saved) if saved > 0 else None


def _of_peers(best, choices, peers, target, n_vectors) -> str:
    """Say whether another engine is better now, or for a larger database."""
    better = choose([best, *peers], target, n_vectors)
    if better is not best:
        times = better.memory(n_vectors) / best.memory(n_vectors)
        if times > 1:
            more = f"With {short(times)} times the memory, another engine finds more"
            return f"{more}: {better}."
        return f"Another engine does better than the recommendation: {better}."
    engines = [
        [best, *(peer for peer in peers if peer.row.method == method)]
        for method in dict.fromkeys(peer.row.method for peer in peers)
    ]
    until = choose(choices, target, MANY)
    later = [_for_more_vectors(best, engine, target, until) for engine in engines]
    if any(later):
        return " ".join(
            ["For more vectors another engine does better.", *filter(None, later)]
        )
    as_small = [peer for peer in peers if _cost(peer)[0] <= _cost(best)[0]]
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
