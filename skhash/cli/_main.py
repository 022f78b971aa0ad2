"""Arguments of the command ``skhash``."""

import argparse
import io
import os
import re
import signal
import sys
import textwrap
from pathlib import Path

from skhash import __version__
from skhash.cli._signals import Signals
from skhash.utils.lazy import LateModule

# Imported when a command runs, so that it says at once what it does.
_audit = LateModule("skhash.cli._audit")
_encode = LateModule("skhash.cli._encode")
_estimators = LateModule("skhash.persistence.estimators")
_compile = LateModule("skhash.compile")

EPILOG = """\
examples:
  skhash audit                               measure codes on scikit-learn's digits
  skhash audit vectors.npy --metric cosine   ... on your own vectors
  skhash audit vectors.npy --out report      ... and write page, picture and encoder
  skhash encode report/encoder vectors.npy codes.npy --packed
  skhash warm                                compile in advance, for container images
"""
METHODS = "bytes,itq,sgh,neighbor,pca,lsh,sign,int8,pq,rabitq"
METRICS = ("euclidean", "cosine", "inner_product")
DEVICES = "auto, cpu, cuda, cuda:1 or mps"
AUDIT_BEGINS = (
    "Auditing {name}: each method is fitted at each code length, then its recall and "
    "speed are measured. This takes {time}, and up to half a minute more the first "
    "time, while code is compiled."
)
VECTORS_HELP = (
    "file of vectors, one per row, such as .npy, .npz, .safetensors, .parquet, .arrow, "
    ".fvecs, .fbin, .csv or .hdf5"
)
# Length at which errors are cut: a parser's may quote the whole file.
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
        if isinstance(sys.stdout, io.TextIOWrapper):
            # A path may hold characters that the terminal's encoding lacks. What is
            # not buffered would fail in `print`, which does not say where.
            sys.stdout.reconfigure(errors="replace", write_through=False)
        try:
            with Signals():
                arguments = _parser().parse_args(argv)
                arguments.run(arguments)
        finally:
            _flush_output()
    except (ValueError, OSError, ImportError) as error:
        _complain(_one_line(error))
        return 2
    except (MemoryError, RuntimeError) as error:  # for lack of memory torch raises both
        if isinstance(error, RuntimeError) and "memory" not in str(error):
            raise
        _complain(f"out of memory; try fewer rows or bits: {_one_line(error)}")
        return 2
    except KeyboardInterrupt as stopped:
        _complain(str(stopped) or "interrupted")
        return 128 + getattr(stopped, "number", signal.SIGINT)
    return 0


def _flush_output() -> None:
    """Flush the output here, where a failure can be reported, and not at exit."""
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
    """Drop unwritten output of a stream, which would fail again at exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def _one_line(error: Exception) -> str:
    text = str(error)
    if isinstance(error, OSError) and error.strerror:
        text = error.strerror
        if error.filename:
            text = f"{error.filename}: {text}"
    # Names of arrays in a file may hold a terminal's control characters.
    text = "".join(c if c.isprintable() or c.isspace() else "?" for c in text)
    return textwrap.shorten(text, LONGEST_LINE, placeholder=" ...")


def _run_audit(arguments) -> None:
    """Say what an audit does, where somebody watches, and run it."""
    if not arguments.quiet and sys.stderr is not None and sys.stderr.isatty():
        name, time = "scikit-learn's digits", "less than a minute on most machines"
        if arguments.vectors is not None:
            name, time = Path(arguments.vectors).name, "minutes for 100,000 vectors"
        text = AUDIT_BEGINS.format(name=name, time=time)
        print(textwrap.fill(text), file=sys.stderr, flush=True)
    _audit.run_audit(arguments)


def run_check(arguments) -> None:
    """Load all estimators saved in a directory or below it, and print their kinds.

    Raises
    ------
    FileNotFoundError
        If nothing was saved there.
    ValueError
        If a file is damaged.
    """
    folder = Path(arguments.folder)
    files = folder.rglob(_estimators.FILE)
    for path in sorted(file.parent for file in files) or [folder]:
        estimator = _estimators.load(path)
        if not arguments.quiet:
            print(f"{path}: {type(estimator).__name__}, intact")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="skhash",
        description="Compress vectors to short codes: measure first, then encode.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=__version__)
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    _add_audit(commands)
    _add_encode(commands)
    _add_check(commands)
    _add_warm(commands)
    return parser


def _add_audit(commands):
    parser = commands.add_parser(
        "audit",
        help="measure methods and code lengths on your vectors, and recommend a search",
        description="Measure memory, speed and recall of each method and code length.",
    )
    vectors = f"{VECTORS_HELP} (default: scikit-learn's digits)"
    parser.add_argument("vectors", nargs="?", metavar="VECTORS", help=vectors)

    def add(name, default, help, **options):
        if default is not None:
            help += " (default: %(default)s)"
        parser.add_argument(name, default=default, help=help, **options)

    lengths = {"type": _integers, "metavar": "N,N,..", "dest": "n_bits"}
    names = {"type": _words, "metavar": "M,M,.."}
    number = {"type": int, "metavar": "N"}
    queries, seed = number | {"dest": "n_queries"}, number | {"dest": "random_state"}
    add("--labels", None, "one label per row: measures mAP too", metavar="FILE.npy")
    add("--bits", "16,32,64,128", "code lengths to try", **lengths)
    add("--methods", METHODS, "methods; the last four are for comparison", **names)
    add("--metric", "euclidean", "how vectors are compared", choices=METRICS)
    add("--n-neighbors", 10, "number of true neighbours to find", **number)
    add("--rerank", 100, "candidates per query to re-rank by their vectors", **number)
    add("--sample", 100_000, "maximum number of rows to use, drawn at random", **number)
    add("--queries", 1000, "rows to hold out as queries, at most a fifth", **queries)
    add("--target-recall", 0.9, "recall to reach after re-ranking", type=float)
    many = "number of vectors to recommend for, by an estimate"
    add("--n-vectors", None, many, **number)
    add("--device", "auto", f"where to compute: {DEVICES}")
    add("--seed", 0, "random seed of the sample and the methods", **seed)
    add("--out", None, "directory to write report and encoder to", metavar="DIR")
    images = "shape of image rows, such as 28x28 or 28x28x3, to show in report.html"
    add("--image-shape", None, images, type=_shape, metavar="HxW")
    add("--texts", None, "one line per row, to show in report.html", metavar="FILE")
    whole = "print all rows of the table, not only the best"
    parser.add_argument("--all", action="store_true", help=whole)
    _add_shared(parser, "print only the recommendation", "print the whole result")
    parser.set_defaults(run=_run_audit)


def _add_encode(commands):
    parser = commands.add_parser(
        "encode",
        help="encode a file of vectors with a saved encoder",
        description="Encode a file of any size, in chunks, into a .npy file of uint8 "
        "with one column per bit or, with --packed and for bytes, one per eight bits.",
    )
    add, packed = parser.add_argument, "pack eight bits into a byte"
    where = f"where to encode: {DEVICES} (default: as saved with the encoder)"
    add("encoder", metavar="ENCODER", help="directory that `save` or `audit` wrote")
    add("vectors", metavar="VECTORS", help=VECTORS_HELP)
    add("codes", metavar="CODES.npy", help="file to write")
    add("--packed", action="store_true", help=packed)
    add("--device", help=where)
    _add_shared(parser, "print only errors", "print a summary")
    parser.set_defaults(run=lambda arguments: _encode.run_encode(arguments))


def _add_check(commands):
    parser = commands.add_parser(
        "check",
        help="check that saved files are complete and undamaged",
        description="Verify the checksums of all files that `save` or `audit` wrote to "
        "a directory or its subdirectories. If one is damaged, its name is printed and "
        "the exit status is 2.",
    )
    quiet = "print only errors"
    parser.add_argument("folder", metavar="DIR", help="directory to check")
    parser.add_argument("--quiet", action="store_true", help=quiet)
    parser.set_defaults(run=run_check)


def _add_warm(commands):
    parser = commands.add_parser(
        "warm",
        help="compile all kernels in advance, for container images",
        description="Compile all kernels into numba's cache, so that no search has to.",
    )
    parser.set_defaults(run=lambda arguments: _compile.main())


def _add_shared(parser, quiet, json):
    """Add the options of `audit` and `encode`, for vectors and for output."""
    add, ids = parser.add_argument, "keep columns that look like row numbers or ids"
    add("--column", metavar="NAME", help="column to read, of .parquet and .arrow files")
    add("--name", metavar="NAME", help="array to read, of .safetensors, .npz and .hdf5")
    add("--keep-ids", action="store_true", help=ids)
    add("--quiet", action="store_true", help=f"{quiet}, and show no progress")
    add("--json", action="store_true", help=f"{json} as JSON, for programs")


def _words(text: str) -> list[str]:
    return [word.strip() for word in text.split(",") if word.strip()]


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
