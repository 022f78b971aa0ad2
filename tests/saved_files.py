"""What stands in a saved directory, read and written as a forger would."""

import hashlib
import io
import json

import numpy as np
from safetensors.numpy import load as parse_arrays
from safetensors.numpy import save as serialize_arrays

from skhash.persistence.directory import MANIFEST, checksum_of


def read_manifest(path):
    return json.loads((path / MANIFEST).read_text())


def write_manifest(path, manifest):
    """Write a manifest with the checksum that fits."""
    (path / MANIFEST).write_text(
        json.dumps({**manifest, "checksum": checksum_of(manifest)})
    )


def read_arrays(path):
    """Return the arrays by name; those of a search are of the index."""
    manifest = read_manifest(path)
    if isinstance(manifest.get("arrays", {}), str):
        return parse_arrays((path / manifest["arrays"]).read_bytes())
    return {
        name: np.load(path / f"skhash-{name}-{entry['sha256'][:16]}.npy")
        for name, entry in manifest.get("arrays", {}).items()
    }


def write_arrays(path, arrays):
    """Write other arrays, with the checksums that fit."""
    manifest = read_manifest(path)
    if isinstance(manifest["arrays"], str):
        content = serialize_arrays(arrays)
        digest = hashlib.sha256(content).hexdigest()
        (path / manifest["arrays"]).write_bytes(content)
        manifest["arrays_sha256"] = digest
    else:
        manifest["arrays"] = {
            name: _write_npy(path, name, array) for name, array in arrays.items()
        }
    write_manifest(path, manifest)


def _write_npy(path, name, array):
    content = io.BytesIO()
    np.save(content, array)
    digest = hashlib.sha256(content.getvalue()).hexdigest()
    (path / f"skhash-{name}-{digest[:16]}.npy").write_bytes(content.getvalue())
    return {
        "sha256": digest,
        "size": len(content.getvalue()),
        "shape": list(array.shape),
        "dtype": array.dtype.str,
    }
