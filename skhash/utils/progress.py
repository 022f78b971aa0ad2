"""Steps of a task, told while they run."""

import sys
from contextlib import contextmanager
from time import perf_counter


@contextmanager
def progress(wanted=True, plain=True, logged=False):
    """Yield a function that shows a line of progress on the terminal's standard error.

    By rich the line replaces the one before, and an empty one shows nothing: before
    something else is printed. Without rich, `plain` lines are printed. Where standard
    error is no terminal, lines are printed if they are to be `logged`. If nothing is
    wanted, nothing is shown.
    """
    if not wanted or sys.stderr is None or not sys.stderr.isatty():
        is_told = wanted and logged and sys.stderr is not None
        yield lambda line: print(line, file=sys.stderr) if line and is_told else None
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
                print(f"[{name}] {perf_counter() - start:.0f} s: {step}", flush=True)
                show(step)

        yield begin
        begin("done")
