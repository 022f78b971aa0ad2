"""`show_versions`: what a report of a bug should say of the machine."""

import platform
from contextlib import suppress
from importlib import metadata

from skhash.utils.threads import granted_cores

REQUIRED = (
    *("numpy", "scipy", "scikit-learn", "torch", "skorch", "joblib", "numba"),
    "threadpoolctl",
)
# Of the extras, what is imported where it is installed.
OPTIONAL = (
    *("rich", "matplotlib", "pandas", "polars", "pyarrow", "h5py", "dask"),
    *("faiss-cpu", "usearch", "sqlite-vec", "duckdb"),
)


def show_versions() -> None:
    """Print the versions of skhash and its dependencies, and the machine.

    Include the output in bug reports. The function imports none of these packages, so
    it works even if one of them is broken.

    See Also
    --------
    sklearn.show_versions : The same for scikit-learn, including thread pools.

    Examples
    --------
    >>> import skhash
    >>> skhash.show_versions()  # doctest: +ELLIPSIS
    skhash ...
    """
    lines = {**_system(), **_packages()}
    width = max(map(len, lines))
    for name, value in lines.items():
        print(f"{name:{width}}  {value}")


def _system() -> dict[str, str]:
    from skhash import __version__

    return {
        "skhash": __version__,
        "python": platform.python_version(),
        "platform": platform.platform(),
        "processor": f"{processor()}, {granted_cores()} cores granted",
    }


def processor() -> str:
    """Return what kernels are compiled for."""
    try:
        from llvmlite.binding import get_host_cpu_name
    except (ImportError, OSError):  # OSError: its library is there and does not load
        return platform.machine()
    return f"{platform.machine()} {get_host_cpu_name()}"


def _packages() -> dict[str, str]:
    versions = dict.fromkeys(REQUIRED, "not installed")
    for name in (*REQUIRED, *OPTIONAL):
        with suppress(metadata.PackageNotFoundError):
            versions[name] = metadata.version(name)
    return versions
