"""A directory that holds something saved: a manifest in JSON, and what it names.

Files and folders are named by their content, or by chance, and the manifest is replaced
last, in one rename, which moves from the old state to the new one; a crash at any point
leaves one of them whole. Those who save to one directory do so one after the other.
"""

import hashlib
import json
import os
import re
from contextlib import contextmanager, suppress
from pathlib import Path

from skhash.persistence.state import class_name

try:
    import fcntl
except ImportError:  # on Windows
    fcntl = None

FORMAT_VERSION = 1
MANIFEST = "manifest.json"
# What a manifest names: files of arrays, and folders of parts that are saved alike.
# The digits are those of a checksum, or random. A save removes such files that are not
# needed any more: nobody else's are called so.
SAVED = re.compile(
    r"skhash-[a-z_]+-([0-9a-f]{16})\.(?:npy|safetensors)|part-[a-z]+-([0-9a-f]{16})"
)
# Behind the name of a file that is not whole yet.
UNFINISHED = ".part"
# A manifest holds parameters and names: those of a million columns take some 20 MB.
MAX_MANIFEST_BYTES = 2**26


def check_target(path) -> Path:
    """Return where to save to, if that would harm nothing else.

    Raises
    ------
    FileExistsError
        If `path` is a file, or a directory that holds something else.
    """
    path = Path(path)
    if path.is_dir():
        if not _was_saved_to(path):
            raise FileExistsError(
                f"{path} is a directory with other content; save to a new path."
            )
    elif path.exists():
        raise FileExistsError(f"{path} is a file; save writes a directory.")
    return path


@contextmanager
def saving(path):
    """Yield a directory, made if it is missing, to which nobody else saves meanwhile.

    What killed saves left there is removed: it may have filled the disk.

    Raises
    ------
    FileExistsError
        As of `check_target`.
    """
    path = Path(path)
    with suppress(FileExistsError):  # a file, as `check_target` will say
        path.mkdir(parents=True, exist_ok=True)
    with _alone_in(path):
        check_target(path)
        _remove_leftovers(path)
        yield path


@contextmanager
def _alone_in(path: Path):
    """Wait until no other process or thread is in here with the same directory.

    The system lets others in as soon as a process is gone, however it ended.
    """
    if fcntl is None:
        yield
        return
    descriptor = os.open(path, os.O_RDONLY)
    try:
        with suppress(OSError):  # some network file systems have no locks
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        # A process that was forked meanwhile has the descriptor open, too.
        with suppress(OSError):
            fcntl.flock(descriptor, fcntl.LOCK_UN)
        os.close(descriptor)


def _sync_names(path: Path) -> None:
    """Write the names of a directory to the disk, where the system can do that."""
    with suppress(OSError):
        descriptor = os.open(path, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def write_file(path: Path, content: bytes) -> None:
    """Write a file that is either absent, old or complete, never half."""
    temporary = path.with_name(path.name + UNFINISHED)
    with open(temporary, "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    os.replace(temporary, path)


def replace_manifest(path: Path, manifest: dict) -> None:
    """Move from the old state to the new one, and remove what only the old one names.

    Parameters
    ----------
    path : Path
        The directory. What the manifest names is there already.
    manifest : dict
        What is to stand in it, besides versions and checksum.
    """
    from skhash import __version__

    manifest = {
        "format_version": FORMAT_VERSION,
        "skhash_version": __version__,
        **manifest,
    }
    manifest["checksum"] = checksum_of(manifest)
    content = json.dumps(manifest, indent=1).encode()
    if len(content) > MAX_MANIFEST_BYTES:
        raise ValueError(
            f"Parameters and names take {len(content)} bytes, and a manifest may have "
            f"{MAX_MANIFEST_BYTES}; give columns shorter names, or none."
        )
    # Without power, too, what a manifest names is there before it, and goes after it.
    _sync_names(path)
    write_file(path / MANIFEST, content)
    _sync_names(path)
    _remove_leftovers(path)


def load_whole(path, cls, load, *options):
    """Return ``load(path, manifest, *options)``, of what stands there at one moment.

    Parameters
    ----------
    path : path-like
    cls : type or None
        What is to be at `path`, else a ``ValueError`` is raised. None is anything.
    load : callable
    """
    path = Path(path)

    def read(manifest):
        if cls is not None and manifest["class"] != class_name(cls):
            raise ValueError(
                f"{path} holds a {manifest['class']} and no {class_name(cls)}; load it "
                "by skhash.load."
            )
        with naming_damage(path):
            return load(path, manifest, *options)

    manifest = read_manifest(path)
    with suppress(ValueError, FileNotFoundError):
        return read(manifest)
    # Another process that saved may have removed what the manifest named.
    with _alone_in(path):
        return read(read_manifest(path))


@contextmanager
def naming_damage(path):
    """Turn what comes of files that a save would not write into a ``ValueError``."""
    try:
        yield
    except (AttributeError, KeyError, RecursionError, TypeError, ValueError) as error:
        what = f"{type(error).__name__}: " * (type(error) is not ValueError)
        raise ValueError(
            f"{path} is damaged or of another version: {what}{error}"
        ) from error


def read_manifest(path: Path) -> dict:
    """Read a manifest whose content fits its checksum, or raise."""
    kinds = {"skhash_version": str, "class": str, "params": dict, "values": dict}
    with naming_damage(path):
        manifest = _read_json(path / MANIFEST)
        check_keys(manifest, {"format_version": int})
        version = manifest["format_version"]
        if version > FORMAT_VERSION:
            raise ValueError(
                f"It has format version {version}; this skhash reads up to "
                f"{FORMAT_VERSION}. Update skhash to load it."
            )
        if manifest.get("checksum") != checksum_of(manifest):
            raise ValueError(f"{MANIFEST} does not match its checksum.")
        check_keys(manifest, kinds)
    return manifest


def checksum_of(manifest: dict) -> str:
    """Return the checksum of what stands in a manifest besides it."""
    content = {key: value for key, value in manifest.items() if key != "checksum"}
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


def check_keys(found, kinds: dict[str, type]) -> None:
    """Raise ``ValueError`` unless a part of a manifest has values of these types."""
    for key, kind in kinds.items():
        if type(found) is not dict or type(found.get(key)) is not kind:
            raise ValueError(f"{MANIFEST} has no {key!r}, or it is no {kind.__name__}.")


def saved_path(path: Path, name: str) -> Path:
    """Return what a manifest names in a directory, or raise ``ValueError``.

    It has a name that a save gives, and is no link: nothing outside is read.
    """
    if not SAVED.fullmatch(name):
        raise ValueError(f"{MANIFEST} names {name!r}, as no save does.")
    _check_plain(path / name)
    return path / name


def remove_leftover(old: Path) -> None:
    """Remove a file or directory that a save wrote, but for what others put into it."""
    if old.is_symlink() or not old.is_dir():
        old.unlink()
        return
    for entry in filter(_is_leftover, old.iterdir()):
        remove_leftover(entry)
    (old / MANIFEST).unlink(missing_ok=True)
    with suppress(OSError):  # it is not empty
        old.rmdir()


def _remove_leftovers(path: Path) -> None:
    """Remove what saves wrote to a directory, but for what its manifest names."""
    file = path / MANIFEST
    manifest = file.read_text("utf-8") if file.exists() else ""
    for entry in path.iterdir():
        saved = SAVED.fullmatch(entry.name)
        named = saved is not None and saved[saved.lastindex] in manifest
        if not named and _is_leftover(entry):
            remove_leftover(entry)


def _is_leftover(entry: Path) -> bool:
    """Say whether a save wrote this, by its name and, if a directory, its content."""
    name = entry.name.removesuffix(UNFINISHED)
    if not SAVED.fullmatch(name) and entry.name != MANIFEST + UNFINISHED:
        return False
    return entry.is_symlink() or not entry.is_dir() or _was_saved_to(entry)


def _was_saved_to(path: Path) -> bool:
    """Say whether a directory is empty, or what a save wrote or began to write."""
    try:
        manifest = _read_json(path / MANIFEST)
    except FileNotFoundError:
        return all(map(_is_leftover, path.iterdir()))
    except ValueError:
        return False
    return isinstance(manifest, dict) and "skhash_version" in manifest


def _read_json(file: Path):
    """Parse a file of bounded size, or raise ValueError that names it."""
    if not file.is_file():
        raise FileNotFoundError(
            f"{file.parent} is not a saved skhash estimator: it has no {file.name}."
        )
    _check_plain(file)
    with open(file, "rb") as opened:
        content = opened.read(MAX_MANIFEST_BYTES + 1)
    try:
        if len(content) > MAX_MANIFEST_BYTES:
            raise ValueError(f"it has more than {MAX_MANIFEST_BYTES} bytes.")
        return json.loads(content)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{file.name}: {error}") from error


def _check_plain(file: Path) -> None:
    """Raise ``ValueError`` for what is neither a regular file nor a directory."""
    if file.is_symlink():
        raise ValueError(
            f"{file} is a link, and a save writes none; copy what it leads to in its "
            "place (cp -RL copies a whole directory so)."
        )
    if not (file.is_file() or file.is_dir()):
        raise ValueError(f"{file.name} is missing, or no regular file.")
