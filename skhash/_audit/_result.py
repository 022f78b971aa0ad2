"""What an audit returns, and which code it recommends."""

from dataclasses import dataclass

from skhash._audit._measure import AuditRow


@dataclass(frozen=True, repr=False)
class AuditResult:
    """The measurements of an audit, and the code that they recommend.

    Attributes
    ----------
    rows : list of AuditRow
        One a method and length, in the order in which they were asked for.
    recommended : AuditRow
        Of the codes of fewest bytes that reach the target the one of best recall; the
        one of best recall of all where none reaches it.
    reason : str
        Why that one, in a sentence.
    encoder : object
        The recommended encoder, fitted.
    settings : dict
        What was measured: sizes, metric, `k`, `rescore`, target, random state.
    skipped : list of str
        What was asked for and could not be measured, with the reason.
    """

    rows: list[AuditRow]
    recommended: AuditRow
    reason: str
    encoder: object
    settings: dict
    skipped: list[str]

    def __repr__(self) -> str:
        best = self.recommended
        return (
            f"<AuditResult: {len(self.rows)} codes measured, recommended "
            f"{best.method} at {best.n_bits} bits>"
        )

    def to_frame(self):
        """Return the rows as a pandas DataFrame, one column a measurement."""
        import pandas as pd

        return pd.DataFrame([vars(row) for row in self.rows])

    def to_dict(self) -> dict:
        """Return all but the encoder as plain data, ready for JSON."""
        return {
            "settings": self.settings,
            "rows": [vars(row) for row in self.rows],
            "recommended": {
                "method": self.recommended.method,
                "n_bits": self.recommended.n_bits,
                "reason": self.reason,
            },
            "skipped": self.skipped,
        }

    def plot(self, ax=None):
        """Draw recall against bytes per vector, two curves a method.

        The solid one is the recall after re-scoring, the dotted one that of Hamming
        distance alone. The legend stands right of the axes, where it hides no curve.

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


def recommend(rows, k, rescore, target) -> tuple[AuditRow, str]:
    """Take the smallest code that reaches the target, and the best of its size."""
    neighbors = "true neighbour" if k == 1 else f"{k} true neighbours"
    goal = f"{100 * target:g}% of the {neighbors} among {rescore} candidates"
    reaching = [row for row in rows if row.recall_rescored >= target]
    if not reaching:
        best = min(rows, key=lambda row: (-row.recall_rescored, row.bytes_per_vector))
        return best, (
            f"the best of these, although none keeps {goal}: try more bits or a larger "
            "rescore"
        )
    best = min(reaching, key=lambda row: (row.bytes_per_vector, -row.recall_rescored))
    reason = f"the smallest code that keeps {goal}"
    rivals = [
        row
        for row in reaching
        if row.bytes_per_vector == best.bytes_per_vector and row is not best
    ]
    if rivals:
        second = max(rivals, key=lambda row: row.recall_rescored)
        reason += (
            f"; next comes {second.method} at {second.n_bits} bits with "
            f"{second.recall_rescored:.3f}"
        )
    if best.recall_rescored - 2 * best.recall_rescored_error < target:
        reason += (
            f"; but it is within two standard errors of {100 * target:g}%, so with "
            "other queries it may fall short"
        )
    return best, reason
