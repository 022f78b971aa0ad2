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
VECTORS_HELP = ".npy, .npz, .fvecs, .bvecs, .csv or .hdf5, one vector a row"


def main(argv=None) -> int:
    """Run the command line.

    Parameters
    ----------
    argv : list of str, default=None
        Arguments; by default those of the process.

    Returns
    -------
    status : int
        0, or 2 where the input cannot be used, or 130 where the user interrupts.
    """
    arguments = _parser().parse_args(argv)
    try:
        arguments.run(arguments)
    except (ValueError, OSError, ImportError) as error:
        print(f"skhash: {_one_line(error)}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("skhash: interrupted", file=sys.stderr)
        return 130
    return 0


def _one_line(error: Exception) -> str:
    if isinstance(error, OSError) and error.filename and error.strerror:
        return f"{error.filename}: {error.strerror}"
    return " ".join(str(error).split("\n"))


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
        description="Fit each method at each length, search with held-out queries, "
        "print what each code costs and keeps, and recommend one.",
    )
    parser.add_argument(
        "vectors",
        nargs="?",
        metavar="VECTORS",
        help=f"{VECTORS_HELP}; without it, scikit-learn's digits",
    )

    def add(name, default, help, **options):
        if default is not None:
            help += " (default: %(default)s)"
        parser.add_argument(name, default=default, help=help, **options)

    add("--labels", None, "one label a row: adds mAP", metavar="FILE.npy")
    add("--bits", "16,32,64,128", "lengths to try", type=_integers, metavar="N,N,..")
    add(
        "--methods",
        "sgh,neighbor,itq,pca,lsh",
        "methods to try",
        type=_words,
        metavar="M,M,..",
    )
    add(
        "--metric",
        "euclidean",
        "what makes a true neighbour",
        choices=["euclidean", "cosine", "inner_product"],
    )
    add("--k", 10, "number of true neighbours to find", type=int, metavar="K")
    add(
        "--rescore",
        100,
        "candidates by Hamming distance that the float vectors rank again",
        type=int,
        metavar="C",
    )
    add("--sample", 100_000, "random rows to use at most", type=int, metavar="N")
    add(
        "--queries",
        1000,
        "how many of these rows are queries, a fifth at most",
        type=int,
        metavar="N",
    )
    add(
        "--target-recall",
        0.9,
        "what the recommended code has to reach after re-scoring",
        type=float,
        metavar="R",
    )
    add("--device", "auto", "where to compute: auto, cpu, cuda, cuda:1 or mps")
    add("--seed", 0, "draws rows and seeds the methods", type=int, metavar="N")
    add("--out", None, "write report.json, audit.png and encoder/ here", metavar="DIR")
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
    parser.set_defaults(run=run_encode)


def _integers(text: str) -> list[int]:
    try:
        return [int(word) for word in _words(text)]
    except ValueError:
        raise argparse.ArgumentTypeError(
            f"{text!r} is not a list of whole numbers such as 32,64"
        ) from None


def _words(text: str) -> list[str]:
    return [word.strip() for word in text.split(",") if word.strip()]
