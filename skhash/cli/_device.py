"""The device, tried before the work."""

from skhash.utils.torch import resolve_device


def check_device(name: str) -> None:
    """Raise ``ValueError`` where torch cannot compute on the device."""
    device = resolve_device(name)
    import torch

    try:
        torch.zeros(1, device=device).cpu()
    # What is missing for a device shows as any exception.
    except Exception as error:
        raise ValueError(f"--device {name} cannot be used here: {error}") from error
