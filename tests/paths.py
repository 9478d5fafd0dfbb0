"""Paths that a server must not open for a client, and a folder of documents with traps in it."""

import os
from pathlib import Path

DOCUMENT = "report.txt"
"""The one file that may be opened."""
SECRET = "a line that no client may read"
_FIFO = "pipe.txt"

PATHS = (
    *("/etc/passwd", "//etc/passwd", "/etc/../etc/passwd", "/", "~/.ssh/id_rsa", "C:\\Windows"),
    *("..", "../secret.txt", "../../../../etc/passwd", "report.txt/../../secret.txt"),
    *("..\\secret.txt", "%2e%2e/secret.txt", "..%2fsecret.txt"),
    *("", "inner", "report.txt/x", "report.txt\0", "\0/etc/passwd", "x" * 5000),
    *("link.txt", "link_to_link.txt", "link_to_folder/secret.txt", "circle.txt"),
    *("file:///etc/passwd", "http://127.0.0.1:1/x", "s3://bucket/key", "data:text/plain,x"),
    *("/proc/self/environ", "/proc/self/fd/0", "/dev/zero", "device.txt", _FIFO),
)
"""Absolute paths, paths out of the folder, odd names, links, addresses, and the kernel's files."""


def lay_traps(folder: Path) -> None:
    """Put a document into a folder, a secret beside it, and links and pipes that lead out."""
    (folder / DOCUMENT).write_text(
        "The trial ran for a year.\n\nThe toy drug lowered the toy score by four points.\n"
    )
    (folder / "inner").mkdir()
    secret = folder.parent / "secret.txt"
    secret.write_text(f"{SECRET}.\n")
    links = {
        "link.txt": secret,
        "link_to_link.txt": folder / "link.txt",
        "link_to_folder": folder.parent,
        "link_to_root": Path("/"),
        "circle.txt": folder / "circle.txt",
        "inner/up": folder,
        "device.txt": Path("/dev/zero"),
    }
    for name, target in links.items():
        (folder / name).symlink_to(target)
    os.mkfifo(folder / _FIFO)


def fifo_was_opened(folder: Path) -> bool:
    """Return True if a process has the pipe open."""
    try:
        os.close(os.open(folder / _FIFO, os.O_WRONLY | os.O_NONBLOCK))
    except OSError:  # ENXIO: no process does
        return False
    return True
