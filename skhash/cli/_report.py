"""The files of ``skhash audit --out``: page, numbers, picture, encoder and decoder."""

import json
import shlex
from contextlib import suppress
from pathlib import Path

from skhash.auditing import AuditResult
from skhash.auditing.chart import FIGURE_SIZE, write
from skhash.auditing.page import check_image_shape
from skhash.cli._files import check_writable
from skhash.cli._terminal import print_text
from skhash.persistence.estimators import check_target
from skhash.utils.files import replacing

# Where the recommended encoder is kept, and the decoder of its codes.
ENCODER, DECODER = "encoder", "decoder"


def check_report(arguments, shape) -> None:
    """Refuse what cannot be written or shown, before minutes are spent on it.

    shape : numbers of vectors and of columns
    """
    if arguments.out is None:
        for option in ("texts", "image_shape"):
            if getattr(arguments, option) is not None:
                raise ValueError(
                    f"--{option.replace('_', '-')} is for the page that --out writes; "
                    "add --out DIR."
                )
        return
    if not arguments.out:
        raise ValueError("--out '' names no directory; write --out DIR.")
    folder = Path(arguments.out)
    check_writable(folder)
    check_target(folder / ENCODER)
    check_target(folder / DECODER)
    if arguments.image_shape is not None:
        check_image_shape(arguments.image_shape, shape[1])
    if arguments.texts is not None:
        _check_texts(arguments.texts, shape[0])


def write_report(result: AuditResult, arguments, name: str) -> list[str]:
    """Write all files of ``--out``, and return their names.

    name : that of the vectors
    """
    if arguments.out is None:
        return []
    folder, texts = Path(arguments.out), None
    folder.mkdir(parents=True, exist_ok=True)
    report = json.dumps(result.to_dict(), indent=1, allow_nan=False)
    _write_text(folder / "report.json", f"{report}\n")
    result.encoder.save(folder / ENCODER)
    result.decoder.save(folder / DECODER)
    if arguments.texts is not None and result.evidence is not None:
        texts = _read_lines(arguments.texts, set(result.evidence.rows))
    page = result.to_html(
        image_shape=arguments.image_shape,
        texts=texts,
        name=name,
        vectors=arguments.vectors,
        folder=arguments.out,
    )
    _write_text(folder / "report.html", page)
    names = ["report.html", "report.json", f"{ENCODER}/", f"{DECODER}/"]
    with suppress(ImportError), replacing(folder / "audit.png") as file:
        write(result.plot, file, "png", FIGURE_SIZE)
        names.append("audit.png")
    return names


def tell_report(names, arguments) -> None:
    """Print what was written, and what to do next."""
    print()
    print_text(f"Wrote {arguments.out}: {', '.join(names)}")
    if "audit.png" not in names:
        hint = 'install matplotlib, pip install "scikit-hash[audit]"'
        print_text(f"No picture: {hint}.")
    words = ["skhash", "encode", str(Path(arguments.out, ENCODER))]
    words += [arguments.vectors or "VECTORS.npy", "codes.npy", "--packed"]
    print(f"Next: {shlex.join(words)}")  # in one line, to be copied


def _lines(path):
    """Open a file of texts, whatever bytes are in it."""
    return open(path, encoding="utf-8", errors="replace")


def _check_texts(path, n_vectors) -> None:
    with _lines(path) as lines:
        n_lines = sum(1 for _ in lines)
    if n_lines != n_vectors:
        raise ValueError(
            f"--texts {path} has {n_lines:,} lines for {n_vectors:,} vectors; give one "
            "a vector, with line breaks within a text as spaces."
        )


def _read_lines(path, wanted) -> dict[int, str]:
    """Return these lines of a file, by their number from 0."""
    with _lines(path) as lines:
        return {number: line for number, line in enumerate(lines) if number in wanted}


def _write_text(path, text) -> None:
    # A file name that is no UTF-8 reads as what UTF-8 cannot write.
    with replacing(path) as file:
        file.write(text.encode("utf-8", "replace"))
