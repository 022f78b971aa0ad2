"""Device names and random generators for torch, which is imported on first use."""

import sys
from contextlib import ExitStack, contextmanager, nullcontext
from math import inf

import numpy as np
from sklearn.utils import check_random_state

from skhash.utils.lazy import torch
from skhash.utils.threads import count_threads, granted_cores

# Multiplications below which torch's operations use one thread. Two would gain less
# than half, and on a busy machine each hand-over can cost milliseconds.
MIN_TORCH_WORK = 2**26


def resolve_device(device: str):
    """Turn a `device` parameter into a ``torch.device`` that exists here.

    Parameters
    ----------
    device : str
        ``"auto"`` is CUDA if there is one, then Apple's MPS, then the CPU. Anything
        else is torch's name of a device: ``"cpu"``, ``"cuda"``, ``"cuda:1"``,
        ``"mps"``.

    Raises
    ------
    ValueError
        If torch does not know the name or finds no such device.
    """
    if device == "auto":
        if torch.cuda.is_available():
            return torch.device("cuda")
        mps = torch.backends.mps.is_available()
        return torch.device("mps" if mps else "cpu")
    try:
        resolved = torch.device(device)
    except RuntimeError as error:
        raise ValueError(
            f"device={device!r} is not a device name that torch knows; use 'auto', "
            "'cpu', 'cuda', 'cuda:1' or 'mps'."
        ) from error
    counts = {
        "cpu": 1,
        "cuda": torch.cuda.device_count(),
        "mps": int(torch.backends.mps.is_available()),
    }
    if resolved.type not in counts and _works(resolved):
        return resolved
    available = counts.get(resolved.type, 0)
    if (resolved.index or 0) >= available:
        raise ValueError(
            f"device={device!r} was asked for, but torch finds {available} "
            f"{resolved.type} device(s) here; use device='auto' or 'cpu'."
        )
    return resolved


def _works(device) -> bool:
    """Return whether a device of another kind can hold numbers and return them."""
    try:
        return torch.ones(1, device=device).cpu().item() == 1
    except Exception:  # of any kind: it is the backend's
        return False


def widest_float(device):
    """Return float64, or float32 for devices without it, such as MPS."""
    try:
        return torch.empty(0, dtype=torch.float64, device=device).dtype
    except TypeError:
        return torch.float32


def multiplies_bfloat16(device) -> bool:
    """Return whether this CPU has instructions for products in bfloat16."""
    if device.type != "cpu" or not hasattr(torch.cpu, "get_capabilities"):
        return False
    able = torch.cpu.get_capabilities()
    return bool(able.get("avx512_bf16") or able.get("amx_bf16"))


def inference_device(device: str):
    """Return the device to encode on: the requested one, or else the CPU.

    A model fitted on a GPU thus encodes on a machine without one. The CPU is returned
    as the string ``"cpu"``, without importing torch where nothing else needs it.
    """
    if device == "cpu" or (device == "auto" and "torch" not in sys.modules):
        return "cpu"
    try:
        resolved = resolve_device(device)
    except ValueError:
        return "cpu"
    return "cpu" if resolved.type == "cpu" else resolved


def check_device(device: str) -> None:
    """Raise ``ValueError`` where there is no such device, without torch for the CPU."""
    if device not in ("auto", "cpu"):
        resolve_device(device)


def encoding_threads(device: str) -> int:
    """Return how many threads encode at a time.

    With a GPU it is two: the copies of one are hidden by the product of the other.
    """
    device = inference_device(device)
    if device == "cpu":
        return count_threads(None)
    return 2 if device.type == "cuda" else 1


def own_stream(device):
    """Return a context with a separate stream, where the device has streams.

    Threads run side by side in such contexts. Leaving one waits for its work.
    """
    if device.type != "cuda":
        return nullcontext()
    return torch.cuda.stream(torch.cuda.Stream(device))


def seeded_generator(random_state: np.random.RandomState, device="cpu"):
    """Return a torch generator on `device`, seeded from a NumPy random state."""
    seed = int(random_state.randint(np.iinfo(np.int32).max))
    return torch.Generator(device=device).manual_seed(seed)


def random_state_of_call(random_state, n_before) -> np.random.RandomState:
    """Return the random state of a call, which depends on the seed and earlier calls.

    Parameters
    ----------
    random_state : int, RandomState instance or None
    n_before : int
        The epochs of earlier calls.
    """
    random_state = check_random_state(random_state)
    if not n_before:
        return random_state
    return np.random.RandomState([random_state.randint(2**31 - 1), n_before])


@contextmanager
def seeded_globals(seed: int, device="cpu"):
    """Seed torch's global generators, of the CPU and of `device`, inside the block.

    First weights and dropout of most modules draw from them. Their state is restored at
    the end.
    """
    device = torch.device(device)
    devices = []
    if device.type == "cuda":
        devices = [
            torch.cuda.current_device() if device.index is None else device.index
        ]
    with torch.random.fork_rng(devices=devices):
        torch.random.default_generator.manual_seed(seed)
        for index in devices:
            torch.cuda.default_generators[index].manual_seed(seed)
        yield


@contextmanager
def torch_as_imported():
    """Set torch's defaults to those of a fresh import.

    These are float32, the CPU, gradients, and no automatic casts. The others are
    restored at the end. The default type belongs to the process, so other threads see
    it change if it was another one. Nothing is imported.
    """
    with ExitStack() as changes:
        if "torch" in sys.modules:
            dtype = torch.get_default_dtype()
            if dtype != torch.float32:
                changes.callback(torch.set_default_dtype, dtype)
                torch.set_default_dtype(torch.float32)
            if torch.get_default_device().type != "cpu":  # each operation asks for it
                changes.enter_context(torch.device("cpu"))
            for kind in filter(torch.is_autocast_enabled, ("cpu", "cuda")):
                changes.enter_context(torch.autocast(kind, enabled=False))
            changes.enter_context(torch.inference_mode(False))
        yield


@contextmanager
def threads_that_pay(n_multiplications: float = inf):
    """Let torch use the granted cores, or one thread for small operations.

    The number of threads belongs to the process; the old one is restored at the end.
    Where it is smaller, it stays.

    Parameters
    ----------
    n_multiplications : float
        Multiplications in a typical operation of the block.
    """
    before = torch.get_num_threads()
    paying = granted_cores() if n_multiplications >= MIN_TORCH_WORK else 1
    if paying >= before:
        yield
        return
    torch.set_num_threads(paying)
    try:
        yield
    finally:
        torch.set_num_threads(before)
