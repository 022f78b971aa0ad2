"""Arguments of the command ``skhash``."""

import argparse
import sys

EPILOG = """\
examples:
  skhash audit                               measure codes on scikit-learn's digits
  skhash audit vectors.npy --metric cosine   ... on your own vectors
  skhash audit vectors.npy --out report      ... and keep report, picture and encoder
  skhash encode report/encoder vectors.npy codes.npy --packed
"""


def main(argv=None) -> int:
    """Run the command line.

    Parameters
    ----------
    argv : list of str, default=None
        Arguments; by default those of the process.

    Returns
    -------
    status : int
        0, or 2 where the input cannot be used.
    """
    arguments = _parser().parse_args(argv)
    try:
        arguments.run(arguments)
    except (ValueError, OSError, ImportError) as error:
        print(f"skhash: {error}", file=sys.stderr)
        return 2
    return 0


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
    return parser


def _add_audit(commands):
    from skhash.cli._audit import run_audit

    parser = commands.add_parser(
        "audit",
        help="measure methods and lengths on vectors, and recommend a code",
        description="Fit each method at each length, search with held-out queries, and "
        "print what each code costs and keeps.",
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
    )
    add = parser.add_argument
    add(
        "vectors",
        nargs="?",
        metavar="VECTORS",
        help=".npy, .npz, .fvecs, .bvecs, .csv or .hdf5; without it, digits",
    )
    add("--labels", metavar="FILE.npy", help="one label a row: adds mAP to the table")
    add("--bits", type=_integers, default="16,32,64,128", help="lengths to try")
    add("--methods", type=_words, default="sgh,itq,pca,lsh", help="methods to try")
    add(
        "--metric",
        default="euclidean",
        choices=["euclidean", "cosine", "inner_product"],
        help="what makes a true neighbour",
    )
    add("--k", type=int, default=10, help="number of neighbours to find")
    add("--rescore", type=int, default=100, help="candidates ranked again by floats")
    add("--sample", type=int, default=100_000, help="random rows to use at most")
    add("--queries", type=int, default=1000, help="held-out queries, a fifth at most")
    add("--target-recall", type=float, default=0.9, help="what the code has to reach")
    add("--device", default="auto", help="auto, cpu, cuda, cuda:1 or mps")
    add("--seed", type=int, default=0, help="draws rows and seeds the methods")
    add("--out", metavar="DIR", help="write report.json, audit.png and encoder/ here")
    parser.set_defaults(run=run_audit)


def _add_encode(commands):
    from skhash.cli._encode import run_encode

    parser = commands.add_parser(
        "encode",
        help="encode a file of vectors with a saved encoder",
        description="Encode a file of any size, a chunk at a time, into .npy bits.",
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
    )
    add = parser.add_argument
    add("encoder", metavar="ENCODER", help="directory that `save` or `audit` wrote")
    add("vectors", metavar="VECTORS", help=".npy, .npz, .fvecs, .bvecs, .csv or .hdf5")
    add("codes", metavar="CODES.npy", help="file to write")
    add("--packed", action="store_true", help="eight bits a byte")
    add("--device", default=None, help="where to encode; by default as it was fitted")
    parser.set_defaults(run=run_encode)


def _integers(text: str) -> list[int]:
    return [int(word) for word in _words(text)]


def _words(text: str) -> list[str]:
    return [word.strip() for word in text.split(",") if word.strip()]
