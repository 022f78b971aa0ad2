"""Saved files: killed and rival writers, damage, and forgery."""

from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from unittest.mock import patch

import mutants
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from processes import count_writes, forked, killed_after, killed_before, was_killed
from savable import MAKERS, answers, fitted, use
from stress.drawn import rngs

import skhash
from skhash.utils import files

resource = pytest.importorskip("resource", reason="needs fork")
# Limits for reading a file of a few kilobytes, whatever is in it.
MOST_SECONDS, MOST_BYTES, STATM = 20, 2**29, Path("/proc/self/statm")
pytestmark = pytest.mark.long
kinds, steps = st.sampled_from(sorted(MAKERS)), st.integers(1, 8)


@contextmanager
def folder():
    with TemporaryDirectory(ignore_cleanup_errors=True) as path:
        yield Path(path)


def load(cls, path, rng):
    """Open what is at a path in one of the ways there are."""
    if not hasattr(cls, "load") or rng.random() < 0.2:
        return skhash.load(path)
    return skhash.load(path, mmap=bool(rng.integers(2)))


def seen(estimator):
    """Return all that can be seen of an estimator, to be compared."""
    index = getattr(estimator, "index_", estimator)
    names = "packed_codes_", "live_", "ids_", "y_"
    columns = [getattr(index, name) for name in names if hasattr(index, name)]
    return repr(estimator), *(one.tobytes() for one in columns + answers(estimator))


class Versions:
    """Fits of one kind, told apart by all that can be seen of them."""

    def __init__(self, kind, n=3):
        self.fits = [fitted(kind, version) for version in range(n)]
        self.seen = [seen(one) for one in self.fits]

    def at(self, path, rng):
        """Return the number of the version that is there, which must be whole."""
        found = seen(load(type(self.fits[0]), path, rng))
        assert found in self.seen, "Another object was opened than was saved."
        return self.seen.index(found)

    def assert_clean(self, path, scratch):
        """Save once more, later: then there is nothing but what one save writes."""
        with patch.object(files, "ABANDONED", -1):
            for target in (path, scratch):
                self.fits[0].save(target)
        own, other = (
            sum(entry.is_file() for entry in target.rglob("*"))
            for target in (path, scratch)
        )
        assert own == other, "Files of killed saves stay."


def test_versions_differ():
    for kind in MAKERS:
        assert len(set(Versions(kind).seen)) == 3


@settings(max_examples=5)
@given(kind=kinds, rng=rngs, n_steps=steps)
def test_killed_writers(kind, rng, n_steps):
    """A save is killed before any of its writes: the old or the new one is whole."""
    versions, current = Versions(kind), None
    with folder() as path:
        n_writes = count_writes(lambda: versions.fits[0].save(path / "scratch"))
        for _ in range(n_steps):
            new, moment = int(rng.integers(3)), int(rng.integers(1.5 * n_writes))
            save = partial(versions.fits[new].save, path / "a")
            killed = killed_before(save, moment)
            if not (path / "a" / mutants.FILE).exists():
                assert current is None and killed, "The saved object is gone."
                continue
            found = versions.at(path / "a", rng)
            assert found in ((current, new) if killed else (new,))
            current = found
        versions.assert_clean(path / "a", path / "scratch")


@settings(max_examples=2)
@given(kind=kinds, rng=rngs, n_steps=steps)
def test_rival_writers(kind, rng, n_steps):
    """Processes save to one directory, some are killed, and others open it."""
    versions = Versions(kind)
    with folder() as path:

        def save_often(version):
            for _ in range(n_steps):
                versions.fits[version].save(path / "a")

        versions.fits[0].save(path / "a")
        processes = [forked(lambda v=v: save_often(v)) for v in range(3)]
        for _ in range(2 * n_steps):
            versions.at(path / "a", rng)
        assert not any([was_killed(process) for process in processes])
        for version in range(3):
            killed_after(lambda v=version: save_often(v), 0.02 * rng.random())
        versions.at(path / "a", rng)
        versions.assert_clean(path / "a", path / "scratch")


@settings(max_examples=15)
@given(kind=kinds, rng=rngs)
def test_forgery(kind, rng):
    """Anything may be changed, with checksums that fit: an answer or an error."""
    fit = fitted(kind)
    with folder() as path:
        fit.save(path / "a")
        mutants.mutate(path / "a", rng)
        survives(fit, path / "a", rng)


def survives(whole, path, rng):
    """Use what is there, unchecked too: some answer or an error, and nothing worse."""
    load, cls = skhash.load, type(whole)
    if hasattr(cls, "load") and rng.random() < 0.7:
        load = partial(cls.load, mmap=bool(rng.integers(2)), verify=False)
    # torch trains in no process that was forked
    without = ["partial_fit"] if hasattr(whole, "history_") else []

    def use_it():
        resource.setrlimit(resource.RLIMIT_CPU, (MOST_SECONDS, MOST_SECONDS + 9))
        if STATM.exists():  # on Linux
            most = int(STATM.read_text().split()[0]) * resource.getpagesize()
            resource.setrlimit(resource.RLIMIT_AS, (most + MOST_BYTES,) * 2)
        with suppress(ValueError, FileNotFoundError):
            use(load(path), whole, path.parent / "again", without)

    assert not was_killed(forked(use_it)), "It was killed."
