"""How far a task is, in the words that all of them use."""

import shutil
import sys


def short(number: float) -> str:
    """Write a number in three or four figures: more would be noise.

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
    """Write a time as people say it.

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
    """Say how far a task of `n` rows is after these seconds.

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
    """Return the columns of a terminal, or None where a stream is none.

    Parameters
    ----------
    stream : file, default=None
        By default the standard output of now.
    """
    stream = sys.stdout if stream is None else stream
    if stream is None or not stream.isatty():
        return None
    return max(shutil.get_terminal_size().columns, 20)


def fitting(parts: list[str], width: int | None) -> str:
    """Join the parts of a line, as many as a terminal has room for.

    The first ones matter most. The first alone is cut.

    Examples
    --------
    >>> from skhash.utils.progress import fitting
    >>> fitting(["epoch 1", "loss 0.5", "3 s left"], 20)
    'epoch 1  loss 0.5'
    """
    line = parts[0] if width is None else parts[0][:width]
    for part in parts[1:]:
        longer = f"{line}  {part}"
        if width is not None and len(longer) > width:
            break
        line = longer
    return line
