"""Texts that report the progress of a task."""

import shutil
import sys


def short(number: float) -> str:
    """Format a number in three or four figures.

    Examples
    --------
    >>> from skhash.utils.progress import short
    >>> short(98_632), short(0.41)
    ('98.6k', '0.41')
    """
    units = iter("kMG")
    unit = ""
    while number >= 999.5 and unit != "G":
        number, unit = number / 1000, next(units)
    return f"{number:.3g}{unit}"


def duration(seconds: float) -> str:
    """Format a duration for people.

    Examples
    --------
    >>> from skhash.utils.progress import duration
    >>> duration(0.4), duration(65), duration(9_990)
    ('0 s', '1 min 5 s', '2 h 46 min')
    """
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    if hours:
        return f"{hours} h {minutes} min"
    return f"{minutes} min {rest} s" if minutes else f"{rest} s"


def rate_line(done: int, n: int, seconds: float) -> str:
    """Describe the progress of a task of `n` rows after these seconds.

    Examples
    --------
    >>> from skhash.utils.progress import rate_line
    >>> rate_line(2_000_000, 10_000_000, 1.25)
    '2,000,000 of 10,000,000, 1.6M rows/s, 5 s left'
    """
    rate = done / max(seconds, 1e-9)
    return (
        f"{done:,} of {n:,}, {short(rate)} rows/s, {duration((n - done) / rate)} left"
    )


def terminal_width(stream=None) -> int | None:
    """Return the columns of a terminal, or None if a stream is not one.

    Parameters
    ----------
    stream : file, default=None
        By default the current standard output.
    """
    stream = sys.stdout if stream is None else stream
    if stream is None or not stream.isatty():
        return None
    return max(shutil.get_terminal_size().columns, 20)
