"""Texts that report the progress of a task, and the line that shows them."""

import shutil
import sys
from contextlib import contextmanager
from time import perf_counter


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


@contextmanager
def progress(wanted=True, plain=True):
    """Yield a function that shows a line of progress on the terminal's standard error.

    By rich the line replaces the one before, and an empty one shows nothing: before
    something else is printed. Without rich, `plain` lines are printed. Where standard
    error is no terminal, or nothing is wanted, nothing is shown.
    """
    if not wanted or sys.stderr is None or not sys.stderr.isatty():
        yield lambda line: None
        return
    try:
        from rich import progress as bars
        from rich.console import Console
    except ImportError:
        yield lambda line: print(line, file=sys.stderr) if line and plain else None
        return
    line = bars.TextColumn("{task.description}", markup=False)
    columns = bars.SpinnerColumn(), line, bars.TimeElapsedColumn()
    with bars.Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("")

        def show(line):
            (bar.start if line else bar.stop)()
            bar.update(task, description=line, refresh=bool(line))

        yield show


@contextmanager
def steps_of(name, wanted):
    """Yield a function that says which step begins, with the time that has passed.

    Lines are printed as scikit-learn's `verbose` does it; on a terminal the last one
    moves until its step is done.
    """
    with progress(wanted, plain=False) as show:
        start = perf_counter()

        def begin(step):
            if wanted:
                show("")
                passed = duration(perf_counter() - start)
                print(f"[{name}] {passed}: {step}", flush=True)
                show(step)

        yield begin
        begin("done")
