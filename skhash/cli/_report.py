"""What ``skhash audit --out`` writes: page, numbers, picture, encoder and decoder."""

import json
import shlex
from dataclasses import dataclass
from pathlib import Path

from skhash._audit import AuditResult
from skhash._audit.page import check_image_shape
from skhash.cli._files import check_writable
from skhash.cli._terminal import print_text
from skhash.persistence.estimators import check_target
from skhash.utils.files import replacing

# Where the recommended encoder is kept, and the decoder of its codes.
ENCODER, DECODER = "encoder", "decoder"


@dataclass(frozen=True)
class Report:
    """The folder of a report, and what its page shows beside the result.

    ``vectors`` and ``texts`` are paths or None, ``name`` what the vectors are called,
    ``image_shape`` that of a row or None.
    """

    folder: Path
    name: str
    vectors: str | None
    texts: str | None
    image_shape: tuple[int, ...] | None

    def write(self, result: AuditResult) -> list[str]:
        """Write all files, and return their names."""
        folder = self.folder
        folder.mkdir(parents=True, exist_ok=True)
        report = json.dumps(result.to_dict(), indent=1, allow_nan=False)
        _write_text(folder / "report.json", f"{report}\n")
        result.encoder.save(folder / ENCODER)
        result.decoder.save(folder / DECODER)
        _write_text(folder / "report.html", self._page(result))
        drawn = _draw(result, folder / "audit.png")
        names = ["report.html", "report.json", f"{ENCODER}/", f"{DECODER}/"]
        return names + ["audit.png"] * drawn

    def tell(self, names) -> None:
        """Print what was written, and what to do next."""
        print()
        print_text(f"Wrote {self.folder}: {', '.join(names)}")
        if "audit.png" not in names:
            hint = 'install matplotlib, pip install "scikit-hash[audit]"'
            print_text(f"No picture: {hint}.")
        words = ["skhash", "encode", str(self.folder / ENCODER)]
        words += [self.vectors or "VECTORS.npy", "codes.npy", "--packed"]
        print(f"Next: {shlex.join(words)}")  # in one line, to be copied

    def _page(self, result) -> str:
        texts = None
        if self.texts is not None and result.evidence is not None:
            texts = _read_lines(self.texts, set(result.evidence.rows))
        return result.to_html(
            image_shape=self.image_shape,
            texts=texts,
            name=self.name,
            vectors=self.vectors,
            folder=str(self.folder),
        )


def make_report(arguments, name, shape) -> Report | None:
    """Return what is to be written, refused before minutes are spent on it.

    name : what the vectors are called
    shape : numbers of vectors and of what each holds
    """
    if arguments.out is None:
        for option in ("texts", "image_shape"):
            if getattr(arguments, option) is not None:
                raise ValueError(
                    f"--{option.replace('_', '-')} is for the page that --out writes; "
                    "add --out DIR."
                )
        return None
    folder = Path(arguments.out)
    check_writable(folder)
    check_target(folder / ENCODER)
    check_target(folder / DECODER)
    if arguments.image_shape is not None:
        check_image_shape(arguments.image_shape, shape[1])
    if arguments.texts is not None:
        _check_texts(arguments.texts, shape[0])
    return Report(
        folder, name, arguments.vectors, arguments.texts, arguments.image_shape
    )


def _lines(path):
    """Open a file of texts, whatever bytes are in it."""
    return open(path, encoding="utf-8", errors="replace")


def _check_texts(path, n_vectors) -> None:
    with _lines(path) as lines:
        n_lines = sum(1 for _ in lines)
    if n_lines != n_vectors:
        raise ValueError(
            f"--texts {path} has {n_lines:,} lines for {n_vectors:,} vectors; it takes "
            "one a vector, so write line breaks within a text as spaces."
        )


def _read_lines(path, wanted) -> dict[int, str]:
    """Return these lines of a file, by their number from 0."""
    with _lines(path) as lines:
        return {number: line for number, line in enumerate(lines) if number in wanted}


def _write_text(path, text) -> None:
    # A file name that is no UTF-8 reads as what UTF-8 cannot write.
    with replacing(path) as file:
        file.write(text.encode("utf-8", "replace"))


def _draw(result: AuditResult, path: Path) -> bool:
    """Write the picture, where matplotlib is installed, and say whether it is."""
    try:
        from matplotlib.figure import Figure
    except ImportError:
        return False
    from skhash._audit._plot import FIGURE_SIZE

    # A figure without pyplot: no window, no state of the process is touched.
    figure = Figure(figsize=FIGURE_SIZE, layout="constrained")
    result.plot(figure.subplots())
    with replacing(path) as file:
        figure.savefig(file, format="png", dpi=150)
    return True
