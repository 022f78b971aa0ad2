"""Random problems against plain answers: ``python -m skhash.soak --minutes 10``.

It is part of the package, and not of its tests, since kernels are compiled for the
processor that runs them: whoever relies on one can soak it.
"""

from skhash.soak.problem import Problem

__all__ = ["Problem"]
