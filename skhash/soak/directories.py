"""Attacks on what is saved: killed and rival writers, damage, and forgery."""

import os
import shutil
import time

import numpy as np

import skhash
from skhash.linear import LinearDecoder, RandomHyperplaneHash
from skhash.neighbors import AsymmetricNeighbors, HammingNeighbors, HashedNeighbors
from skhash.persistence.estimators import FILE
from skhash.soak import mutants
from skhash.soak.processes import (
    count_writes,
    forked,
    killed_after,
    killed_before,
    was_killed,
)

KINDS = ("codes", "clusters", "decoder", "vectors", "search", "encoder")
N_FEATURES, N_QUERIES = 5, 7
MAX_CODES, MAX_BITS = 500, 100


class Saved:
    """Fitted estimators of one kind, told apart by what they hold.

    Attributes
    ----------
    versions : list of estimator
    seen : list of tuple
        What `look` saw in each.
    """

    def __init__(self, case, n_versions):
        self.case, self.kind = case, str(case.rng("kind").choice(KINDS))
        self.bits = case.bits("asked", N_QUERIES)[:, :MAX_BITS]
        self.queries = case.vectors("asked", N_QUERIES, N_FEATURES)
        self.versions = [self._make(version) for version in range(n_versions)]
        self.seen = [self.look(version) for version in self.versions]

    def _make(self, version):
        # No two versions are of the same length.
        n = 1 + min(self.case.n, MAX_CODES) + version
        bits = self.case.bits(version, n)[:, :MAX_BITS]
        vectors = self.case.vectors(version, n, N_FEATURES)
        ids = np.array([f"{version}:{i}" for i in range(n)])
        encoder = RandomHyperplaneHash(bits.shape[1], random_state=version)
        if self.kind == "encoder":
            return encoder.fit(vectors)
        index = AsymmetricNeighbors(1, n_jobs=1)
        if self.kind == "search":
            decoder = LinearDecoder(n_alternations=1, n_restarts=1)
            search = HashedNeighbors(encoder, index, decoder=decoder)
            return search.fit(vectors, ids=ids)
        if self.kind in ("codes", "clusters"):
            algorithm = {"codes": "brute", "clusters": "pruned"}[self.kind]
            index = HammingNeighbors(1, algorithm=algorithm, n_jobs=1)
            index.fit(bits, bits[:, 0], ids=ids, expected_queries=1)
        else:
            codebook = self.case.vectors("codebook", bits.shape[1] + 1, N_FEATURES)
            what = {"decoder": (codebook[1:], codebook[0]), "vectors": vectors}
            index.fit(bits, bits[:, 0], ids=ids, **{self.kind: what[self.kind]})
        return index.remove(ids[:: 7 + version])

    def look(self, estimator):
        """Return all that can be seen of an estimator, and what it answers."""
        seen = [repr(estimator)]
        if self.kind == "encoder":
            return (*seen, estimator.transform_packed(self.queries).tobytes())
        index = getattr(estimator, "index_", estimator)
        names = "packed_codes_", "live_", "ids_", "y_"
        columns = [getattr(index, name) for name in names if hasattr(index, name)]
        columns += self.answers(estimator)
        return (*seen, *(column.tobytes() for column in columns))

    def answers(self, estimator):
        """Return what it answers, by every kernel that it can use."""
        self.case.counts["queries"] += N_QUERIES
        if self.kind in ("codes", "clusters"):
            balls = estimator.radius_neighbors(self.bits, self.bits.shape[1] // 4)
            return [*estimator.kneighbors(self.bits, 1), *map(np.concatenate, balls)]
        if self.kind == "search":
            return estimator.kneighbors(self.queries, 1)
        return estimator.kneighbors(self.queries, 1, codes=self.bits)

    def open(self, path, rng):
        """Open what is at a path in one of the ways there are."""
        if self.kind == "encoder" or rng.random() < 0.2:
            return skhash.load(path)
        cls = type(self.versions[0])
        return cls.load(path, mmap=bool(rng.integers(2)))

    def version_at(self, path, rng):
        """Return the number of the version that is there, which must be whole."""
        seen = self.look(self.open(path, rng))
        assert seen in self.seen, "What was opened is none of what was saved."
        return self.seen.index(seen)

    def check_clean(self, path, scratch):
        """Save once more, later: then there is nothing but what one save writes."""
        n_files = []
        for folder in (path, scratch):
            for file in folder.glob("*"):
                os.utime(file, (0, 0))
            self.versions[0].save(folder)
            n_files.append(sum(entry.is_file() for entry in folder.rglob("*")))
        assert n_files[0] == n_files[1], "Files of killed saves stay."


def kills(case):
    """Kill saves before a write or at any moment; the old or the new one is whole."""
    saved, path = Saved(case, 3), case.folder / "saved"
    begun = time.perf_counter()
    n_writes = count_writes(lambda: saved.versions[0].save(case.folder / "scratch"))
    duration = time.perf_counter() - begun
    current = None
    for step in range(2 * case.n_steps):
        rng = case.rng("kill", step)
        new = int(rng.integers(3))

        def save(version=saved.versions[new]):
            version.save(path)

        if rng.random() < 0.7:
            # Over an older save there is more to do: it goes.
            killed = killed_before(save, int(rng.integers(1.5 * n_writes)))
        else:
            killed = killed_after(save, 1.5 * duration * rng.random())
        case.counts["kills"] += killed
        if not (path / FILE).exists():
            assert current is None and killed, "What was saved is gone."
            continue
        found = saved.version_at(path, rng)
        assert found in ((current, new) if killed else (new,)), "It is another one."
        current = found
    saved.check_clean(path, case.folder / "scratch")


def savers(case):
    """Let processes save to one directory at a time, some killed, and open it."""
    saved, path = Saved(case, 3), case.folder / "saved"
    n_saves = 1 + case.n_steps

    def save_often(version):
        for _ in range(n_saves):
            saved.versions[version].save(path)

    saved.versions[0].save(path)
    processes, rng = [forked(lambda v=v: save_often(v)) for v in range(3)], case.rng()
    opened = [saved.version_at(path, rng) for _ in range(2 * n_saves)]
    case.counts["openings beside savers"] += len(opened)
    assert not any([was_killed(process) for process in processes])
    saved.version_at(path, rng)
    case.counts["kills"] += sum(
        killed_after(lambda v=v: save_often(v), 0.02 * rng.random()) for v in range(3)
    )
    saved.version_at(path, rng)
    saved.check_clean(path, case.folder / "scratch")


def damage(case):
    """Flip, cut, swap and remove files: refused, or as if nothing had happened."""
    saved, whole = Saved(case, 2), case.folder / "whole"
    saved.versions[0].save(whole)
    saved.versions[1].save(case.folder / "other")
    for step in range(2 * case.n_steps):
        rng = case.rng("damage", step)
        path = shutil.copytree(whole, case.folder / f"damaged {step}")
        hurt(path, case.folder / "other", rng)
        case.counts["files damaged"] += 1
        try:
            seen = saved.look(saved.open(path, rng))
        except (ValueError, FileNotFoundError) as error:
            assert str(path) in str(error), "The error does not name the directory."
        else:
            assert seen == saved.seen[0], "Damage was not found."
        if saved.kind != "encoder":
            unchecked(saved, path, mmap=bool(rng.integers(2)))
        shutil.rmtree(path)


def hurt(path, other, rng):
    """Damage one file below a directory."""
    files = sorted(file for file in path.rglob("*") if file.is_file())
    file = files[rng.integers(len(files))]
    content, change = bytearray(file.read_bytes()), rng.integers(6)
    place = int(rng.integers(len(content)))
    if change == 0:
        content[place] ^= 1 << rng.integers(8)
    elif change == 1:
        del content[place:]
    elif change == 2:
        content += rng.bytes(rng.integers(1, 100))
    elif change == 3:
        content[place : place + 64] = rng.bytes(len(content[place : place + 64]))
    elif change == 4:
        file.unlink()
        return
    else:
        others = sorted(one for one in other.rglob(f"*{file.suffix}"))
        content = others[rng.integers(len(others))].read_bytes()
    file.write_bytes(content)


def unchecked(saved, path, mmap):
    """Open without checksums: some answer or an error, and nothing worse."""
    cls = type(saved.versions[0])
    try:
        loaded = cls.load(path, mmap=mmap, verify=False)
        saved.answers(loaded)
        index = getattr(loaded, "index_", loaded)
        ids = getattr(index, "ids_", np.arange(index.n_samples_fit_))
        index.remove(ids[-2:]).compact()
        saved.answers(loaded)
    except (ValueError, FileNotFoundError):
        pass


def forgery(case):
    """Change anything, with checksums that fit: an answer or an error."""
    saved, whole = Saved(case, 1), case.folder / "whole"
    saved.versions[0].save(whole)
    for step in range(2 * case.n_steps):
        rng = case.rng("forgery", step)
        path = shutil.copytree(whole, case.folder / f"forged {step}")
        mutants.mutate(path, rng)
        case.counts["files forged"] += 1
        try:
            saved.look(saved.open(path, rng))
        except (ValueError, FileNotFoundError):
            pass
        if saved.kind != "encoder":
            unchecked(saved, path, mmap=bool(rng.integers(2)))
        shutil.rmtree(path)
