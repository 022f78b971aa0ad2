"""The type of paths."""

import os

PathLike = str | os.PathLike[str]
