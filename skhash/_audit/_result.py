"""What an audit returns, and which code and search it recommends."""

from dataclasses import dataclass

from skhash._audit._measure import AuditRow

# Of each search: the recall that a row has of it, and what it holds of a vector.
SEARCHES = {
    "hamming": ("recall", "code_bytes"),
    "asymmetric": ("recall_asymmetric", "bytes_per_vector"),
}
# How the texts call them.
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
            name += "_rescored" if rescored else ""
            recall = getattr(row, name)
            if recall is not None:
                error = getattr(row, f"{name}_error")
                decoder_bytes = row.codebook_bytes if search == "asymmetric" else 0
                n_bytes = getattr(row, size)
                result.append(
                    Choice(row, search, n_bytes, decoder_bytes, recall, error)
                )
    return result


def choose(choices, target, n_vectors) -> Choice:
    """Take the least memory that reaches the target, and of these the best recall.

    Where none reaches it, the best recall, and of these the least memory.
    """
    reaching = [choice for choice in choices if choice.recall >= target]
    if reaching:
        return min(
            reaching, key=lambda choice: (choice.memory(n_vectors), -choice.recall)
        )
    return min(choices, key=lambda choice: (-choice.recall, choice.memory(n_vectors)))


def reason_for(best, choices, goal, target) -> str:
    """Say in a sentence why a choice was taken."""
    if best.recall < target:
        return (
            f"the best recall of all, although none reaches {goal}: try more bits or a "
            "larger rescore"
        )
    reason = f"the least memory that reaches {goal}"
    rivals = [
        choice
        for choice in choices
        if (choice.n_bytes, choice.decoder_bytes) == (best.n_bytes, best.decoder_bytes)
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
class AuditResult:
    """The measurements of an audit, and the code and the search that they recommend.

    Attributes
    ----------
    rows : list of AuditRow
        One a method and length, in the order in which they were asked for.
    recommended : AuditRow
        The encoder to take.
    search : {"hamming", "asymmetric"}
        How to search its codes: by Hamming distance, or by real queries and a decoder.
    choice : Choice
        Both of these, with what they cost: ``n_bytes`` of a vector in memory and
        ``decoder_bytes`` once, ``recall`` and its standard ``error``. Of all that reach
        the target recall they take the least memory for the vectors that there are; of
        those that take as much, or where none reaches it, they have the best recall.
    reason : str
        Why these, in a sentence.
    encoder : object
        The recommended encoder, fitted.
    decoder : LinearDecoder
        What refines and decodes its codes for real queries, fitted.
    settings : dict
        What was measured: sizes, metric, `k`, `rescore`, target, random state.
    skipped : list of str
        What was asked for and could not be measured, with the reason.
    alternatives : list of str
        What else could be taken: for more vectors, without re-scoring, and of other
        engines.
    evidence : object or None
        What the recommended search does with some of the queries, for `to_html`: scores
        of true neighbours and of random pairs, and examples.
    """

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
            f"<AuditResult: {len(self.rows)} codes measured, recommended "
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
        """What the recommended search stores, in bytes.

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
        return f"HashedNeighbors({self.encoder!r}, {parts})"

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

    def to_html(
        self, *, image_shape=None, texts=None, name=None, vectors=None, folder=None
    ):
        """Return a page that shows all this, as the text of one HTML file.

        It asks nothing of a network and can be read without JavaScript, which adds
        numbers under the pointer and a table that sorts.

        Parameters
        ----------
        image_shape : tuple of int, default=None
            Height and width where rows are grey images, and 3 before or behind them
            where they are coloured: examples are then shown as pictures.
        texts : sequence or mapping of str, default=None
            The text of each row, by its position in the vectors: examples are then
            shown as texts.
        name : str, default=None
            What the vectors are called; by default `vectors`.
        vectors : str, default=None
            The file of the vectors, for the commands on the page.
        folder : str, default=None
            Where ``encoder`` and ``decoder`` were saved, for the commands on the page;
            by default these make them anew.

        Returns
        -------
        html : str

        Raises
        ------
        ValueError
            If `image_shape` is none, or rows have not as many numbers as such an image;
            if `texts` has no text of a row that is shown.

        Examples
        --------
        >>> from sklearn.datasets import load_digits
        >>> from skhash import audit
        >>> X, _ = load_digits(return_X_y=True)
        >>> result = audit(X, n_bits=[16], methods=["pca"])
        >>> html = result.to_html(image_shape=(8, 8))
        >>> html.count("<img") > 10
        True
        """
        from skhash._audit.page import page

        return page(
            self,
            image_shape=image_shape,
            texts=texts,
            name=name,
            vectors=vectors,
            folder=folder,
        )

    def _repr_html_(self) -> str:
        from skhash._audit.page import fragment

        return fragment(self)

    def plot(self, ax=None):
        """Draw recall against bytes per vector in memory, and name the recommendation.

        A colour is a search, by Hamming distance or by real queries, and a line is
        solid after re-scoring and dotted without. A strong line is the best method of
        each length; thin ones are the others. Marks are other engines. The legend
        stands right of the axes, where it hides no curve.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
            Where to draw; by default in a new figure. Give a figure of your own
            ``layout="constrained"``, so that it leaves room for the legend.

        Returns
        -------
        ax : matplotlib Axes
        """
        from skhash._audit._plot import plot_audit

        return plot_audit(self, ax)


def make_result(rows, fitted, settings, skipped) -> AuditResult:
    """Choose among the rows that are fitted here, and compare with the others.

    fitted : dict of tuples (encoder, decoder), by the place of their row
    """
    k, rescore, n_rows = (settings[key] for key in ("k", "rescore", "n_rows"))
    target, rescored = settings["target_recall"], rescore > k
    own = choices_of([rows[place] for place in fitted], rescored)
    best = choose(own, target, n_rows)
    neighbors = "true neighbour" if k == 1 else f"{k} true neighbours"
    goal = f"{100 * target:g}% of the {neighbors}"
    goal += f" after re-scoring {rescore} candidates" if rescored else ""
    place = next(place for place in fitted if rows[place] is best.row)
    peers = [row for number, row in enumerate(rows) if number not in fitted]
    alternatives = [_for_more_vectors(best, own, target)]
    if rescored:
        alone = choices_of([rows[place] for place in fitted], rescored=False)
        peers_alone = choices_of(peers, rescored=False)
        alternatives.append(_without_vectors(alone, peers_alone, target, n_rows))
    alternatives.append(_of_peers(best, choices_of(peers, rescored), target, n_rows))
    encoder, decoder = fitted[place]
    return AuditResult(
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
