"""The device that models run on."""

from briefcontext.errors import InputError


def choose_device(device: str | None) -> str:
    """The PyTorch device to run on: `device` if given, else a CUDA GPU, else Apple's, else the CPU.

    Raises:
        InputError: this machine has no such device.
    """
    import torch

    if device is None:
        if torch.cuda.is_available():
            return "cuda"
        return "mps" if torch.backends.mps.is_available() else "cpu"
    try:
        torch.empty(0, device=device)
    except (RuntimeError, AssertionError, NotImplementedError) as error:
        raise InputError(
            f"device {device!r} cannot be used on this machine; leave it out, or give 'cpu', 'cuda' or 'mps'."
        ) from error
    return device


def batch_size(device: str) -> int:
    """Texts in one forward pass, which bounds the memory that a pass takes."""
    return 32 if device == "cpu" else 128
