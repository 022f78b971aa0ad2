"""SIGINT and SIGTERM, which end a command after it has saved its results."""

import signal
import threading
from contextlib import contextmanager


class Stopped(KeyboardInterrupt):
    """A signal that ends the command; ``number`` says which."""

    def __init__(self, number, message="interrupted"):
        super().__init__(message)
        self.number = number


class Signals:
    """Raises `Stopped` at SIGINT and SIGTERM, within ``with``.

    A signal that is ignored stays ignored, as for a command in the background.

    Attributes
    ----------
    number : int or None
        The first signal. It is known even where what the signal interrupted has dropped
        or replaced the exception.
    """

    def __init__(self):
        self.number, self._held, self._previous = None, False, {}

    def __enter__(self):
        if threading.current_thread() is threading.main_thread():
            for number in (signal.SIGINT, signal.SIGTERM):
                if signal.getsignal(number) not in (signal.SIG_IGN, None):
                    self._previous[number] = signal.signal(number, self._receive)
        return self

    def __exit__(self, *error):
        for number, handler in self._previous.items():
            signal.signal(number, handler)

    def _receive(self, number, frame):
        is_first = self.number is None
        self.number = self.number or number
        if not (self._held and is_first):
            raise Stopped(number)

    def check(self, message="interrupted") -> None:
        """Raise `Stopped` if there was a signal."""
        if self.number is not None:
            raise Stopped(self.number, message)

    @contextmanager
    def held(self):
        """Let a first signal wait for `check`; a second one still ends the command."""
        self._held = True
        try:
            yield
        finally:
            self._held = False
