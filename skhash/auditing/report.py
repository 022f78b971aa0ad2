"""The result of an audit with its picture and its page."""

from skhash.auditing.chart import draw_recall
from skhash.auditing.page import fragment, page
from skhash.auditing.result import Result


class AuditResult(Result):
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
        The decoder that refines and decodes its codes for real queries, fitted.
    settings : dict
        What was measured: sizes, metric, `k`, `rescore`, target, random state; and the
        date, the processor and the cores.
    skipped : list of str
        Methods and lengths that could not be measured, with the reason.
    alternatives : list of str
        Other choices: for more vectors, without re-scoring, and of other engines.
    evidence : object or None
        Scores of true neighbours and of random pairs by the recommended search, and
        examples of queries, for `to_html`.
    """

    def to_html(
        self, *, image_shape=None, texts=None, name=None, vectors=None, folder=None
    ):
        """Return a page that shows all this, as the text of one HTML file.

        It needs no network and can be read without JavaScript, which sorts the table.
        Charts and pictures need matplotlib; without it the page says so.

        Parameters
        ----------
        image_shape : tuple of int, default=None
            Height and width where rows are grey images, and 3 before or behind them
            where they are coloured: examples are then shown as pictures.
        texts : sequence or mapping of str, default=None
            The text of each row, by its position in the vectors: examples are then
            shown as texts.
        name : str, default=None
            The name of the vectors; by default `vectors`.
        vectors : str, default=None
            The file of the vectors, for the commands on the page.
        folder : str, default=None
            The folder of the saved ``encoder`` and ``decoder``, for the commands on the
            page; by default these fit them again.

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
        return page(self, image_shape, texts, name, vectors, folder)

    def _repr_html_(self) -> str:
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
        return draw_recall(self, ax)
