"""Arguments of the command ``skhash``."""

import argparse
import os
import re
import signal
import sys
import textwrap
from pathlib import Path

from skhash.cli._signals import Signals

EPILOG = """\
examples:
  skhash audit                               measure codes on scikit-learn's digits
  skhash audit vectors.npy --metric cosine   ... on your own vectors
  skhash audit vectors.npy --out report      ... and keep page, picture and encoder
  skhash encode report/encoder vectors.npy codes.npy --packed
"""
VECTORS_HELP = ".npy, .npz, .fvecs, .bvecs, .csv or .hdf5, one vector a row"
# What is cut off an error: a parser's may quote the whole file.
LONGEST_LINE = 1000


def main(argv=None) -> int:
    """Run the command line.

    Parameters
    ----------
    argv : list of str, default=None
        Arguments; by default those of the process.

    Returns
    -------
    status : int
        0, or 2 where the input cannot be used; 130 and 143 after SIGINT and SIGTERM.
    """
    try:
        if sys.stdout is None:
            raise ValueError("standard output is closed")
        try:
            with Signals():
                arguments = _parse(argv)
                arguments.run(arguments)
        finally:
            _flush_output()
    except (ValueError, OSError, ImportError) as error:
        _complain(_one_line(error))
        return 2
    except (MemoryError, RuntimeError) as error:  # for lack of memory torch raises both
        if isinstance(error, RuntimeError) and "memory" not in str(error):
            raise
        _complain(f"out of memory, so try fewer rows or bits: {_one_line(error)}")
        return 2
    except KeyboardInterrupt as stopped:
        _complain(str(stopped) or "interrupted")
        return 128 + getattr(stopped, "number", signal.SIGINT)
    return 0


def _flush_output() -> None:
    """Write what was printed, here, where a failure can be told, and not at exit."""
    try:
        sys.stdout.flush()
    except OSError as error:
        _discard(sys.stdout)
        if not isinstance(error.__context__, KeyboardInterrupt):
            raise ValueError(f"standard output: {error.strerror}") from None


def _complain(line: str) -> None:
    try:
        print(f"skhash: {line}", file=sys.stderr, flush=True)
    except OSError:
        _discard(sys.stderr)


def _discard(stream) -> None:
    """Drop what a stream could not write: it would be tried, and fail, at exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def _one_line(error: Exception) -> str:
    text = str(error)
    if isinstance(error, OSError) and error.strerror:
        text = error.strerror
        if error.filename:
            text = f"{error.filename}: {text}"
    # What a file calls its arrays may hold a terminal's control characters.
    text = "".join(c if c.isprintable() or c.isspace() else "?" for c in text)
    return textwrap.shorten(text, LONGEST_LINE, placeholder=" ...")


def _parse(argv) -> argparse.Namespace:
    parser = _parser()
    arguments, rest = parser.parse_known_args(argv)
    if hasattr(arguments, "n_bits"):
        _check_commas([arguments.vectors or "", *rest])
    if rest:
        parser.error(f"unrecognized arguments: {' '.join(rest)}")
    return arguments


def _check_commas(words: list[str]) -> None:
    """Refuse numbers that stand where files do: ``--bits 64 128`` lacks a comma."""
    for word in words:
        if re.fullmatch(r"[\d,]+", word) and not Path(word).exists():
            raise ValueError(
                f"{word!r} stands alone; lists have commas and no spaces: --bits 64,128"
            )


def _parser() -> argparse.ArgumentParser:
    from skhash import __version__

    parser = argparse.ArgumentParser(
        prog="skhash",
        description="Binary codes for vectors: measure what they cost, then make them.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=__version__)
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    _add_audit(commands)
    _add_encode(commands)
    _add_check(commands)
    return parser


def _add_audit(commands):
    from skhash.cli._audit import run_audit

    parser = commands.add_parser(
        "audit",
        help="measure methods and lengths on vectors, and recommend a code",
        description="Fit each method at each length, search with held-out queries, "
        "print what each code costs and keeps, and recommend one.",
    )
    parser.add_argument(
        "vectors",
        nargs="?",
        metavar="VECTORS",
        help=f"{VECTORS_HELP}; without it, scikit-learn's digits",
    )

    for name, (default, read, metavar, help) in AUDIT_OPTIONS.items():
        options = {"type": read, "metavar": metavar, "help": help}
        if default is not None:
            options |= {"default": default, "help": f"{help} (default: %(default)s)"}
        if name in PARAMETERS:
            options["dest"] = PARAMETERS[name]
        if name == "--metric":
            options["choices"] = METRICS
        parser.add_argument(name, **options)
    _add_output(parser, "print the recommendation alone", "print all of the result")
    parser.set_defaults(run=run_audit)


def _add_encode(commands):
    from skhash.cli._encode import run_encode

    parser = commands.add_parser(
        "encode",
        help="encode a file of vectors with a saved encoder",
        description="Encode a file of any size, a chunk at a time, into a .npy file of "
        "uint8: a column a bit, or with --packed a column for eight bits.",
    )
    add = parser.add_argument
    add("encoder", metavar="ENCODER", help="directory that `save` or `audit` wrote")
    add("vectors", metavar="VECTORS", help=VECTORS_HELP)
    add("codes", metavar="CODES.npy", help="file to write")
    add(
        "--packed", action="store_true", help="eight bits a byte, an eighth of the size"
    )
    add(
        "--device",
        help="where to encode: auto, cpu, cuda, cuda:1 or mps; by default what the "
        "encoder was made with",
    )
    _add_output(parser, "print nothing but what goes wrong", "say what was written")
    parser.set_defaults(run=run_encode)


def _add_check(commands):
    from skhash.cli._check import run_check

    parser = commands.add_parser(
        "check",
        help="say whether what was saved is whole",
        description="Read all files that `save` or `audit` wrote to a directory, or "
        "below it, and compare them with their checksums. What is not whole is named, "
        "and the exit status is 2.",
    )
    parser.add_argument("folder", metavar="DIR", help="the directory")
    parser.add_argument(
        "--quiet", action="store_true", help="print nothing but what goes wrong"
    )
    parser.set_defaults(run=run_check)


def _add_output(parser, quiet, json):
    add = parser.add_argument
    add("--quiet", action="store_true", help=f"{quiet}, and show no progress")
    add("--json", action="store_true", help=f"{json} as JSON, for programs")


def _integers(text: str) -> list[int]:
    try:
        return [int(word) for word in _words(text)]
    except ValueError:
        raise argparse.ArgumentTypeError(
            f"{text!r} is not a list of whole numbers such as 32,64"
        ) from None


def _shape(text: str) -> tuple[int, ...]:
    if not re.fullmatch(r"\d+(x\d+){1,2}", text):
        raise argparse.ArgumentTypeError(
            f"{text!r} is not the height and width of images such as 28x28 or 28x28x3"
        )
    return tuple(map(int, text.split("x")))


def _words(text: str) -> list[str]:
    return [word.strip() for word in text.split(",") if word.strip()]


# Options that the audit calls otherwise.
PARAMETERS = {
    "--bits": "n_bits",
    "--queries": "n_queries",
    "--seed": "random_state",
}
METRICS = ("euclidean", "cosine", "inner_product")
# Of `skhash audit`: default, how a value is read and what it is called, and the help.
AUDIT_OPTIONS = {
    "--labels": (None, str, "FILE.npy", "one label a row: adds mAP"),
    "--bits": ("16,32,64,128", _integers, "N,N,..", "lengths to try"),
    "--methods": (
        "sgh,neighbor,itq,pca,lsh,sign,int8,pq,rabitq",
        _words,
        "M,M,..",
        "methods to try; the last four are to compare with",
    ),
    "--metric": ("euclidean", str, None, "what makes a true neighbour"),
    "--k": (10, int, "K", "number of true neighbours to find"),
    "--rescore": (100, int, "C", "candidates that the float vectors rank again"),
    "--sample": (100_000, int, "N", "random rows to use at most"),
    "--queries": (1000, int, "N", "how many of these are queries, a fifth at most"),
    "--target-recall": (0.9, float, "R", "recall after re-scoring to reach"),
    "--device": (
        "auto",
        str,
        "DEVICE",
        "where to compute: auto, cpu, cuda, cuda:1 or mps",
    ),
    "--seed": (0, int, "N", "draws rows and seeds the methods"),
    "--out": (
        None,
        str,
        "DIR",
        "write report.html, report.json, encoder/, decoder/ and audit.png here",
    ),
    "--image-shape": (
        None,
        _shape,
        "HxW",
        "rows are images, 28x28 or of colours 28x28x3: report.html shows some",
    ),
    "--texts": (
        None,
        str,
        "FILE",
        "one line of text a row: report.html shows some",
    ),
}
