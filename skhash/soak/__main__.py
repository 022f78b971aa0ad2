"""``python -m skhash.soak``: random problems against plain answers, for some time."""

import argparse
import os
import platform
import secrets
import sys
from pathlib import Path

from skhash import __version__
from skhash.soak.campaign import Campaign
from skhash.soak.problem import ATTACKS


def main(arguments=None):
    """Run a campaign; return 1 if something failed, else 0."""
    parser = argparse.ArgumentParser("python -m skhash.soak", description=__doc__)
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--problems", type=int, default=sys.maxsize, metavar="N")
    parser.add_argument("--seed", type=int, help="of the first problem; else by chance")
    parser.add_argument(
        "--only", nargs="+", choices=tuple(ATTACKS), default=tuple(ATTACKS)
    )
    parser.add_argument(
        "--failures", type=Path, default=Path(), help="where tests of failures go"
    )
    options = parser.parse_args(arguments)
    if not hasattr(os, "fork"):
        parser.error("it needs fork, which this system has not.")
    seed = secrets.randbelow(10**9) if options.seed is None else options.seed
    print(
        f"skhash {__version__}, Python {platform.python_version()}, "
        f"{platform.machine()} {platform.system()}, --seed {seed}",
        flush=True,
    )
    # NumPy's own threads do not outlive a fork, and plain answers are its products.
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    options.failures.mkdir(parents=True, exist_ok=True)
    campaign = Campaign(seed, tuple(options.only), options.failures)
    campaign.run(60 * options.minutes, options.problems)
    return int(bool(campaign.failed))


if __name__ == "__main__":
    sys.exit(main())
