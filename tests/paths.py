"""Paths that a server must not open for a client, and a folder of documents with traps in it."""

import os
from pathlib import Path

DOCUMENT = "report.txt"
"""The one file that may be opened."""
SECRET = "a line that no client may read"
_FIFO = "pipe.txt"

PATHS = (
    # absolute
    *(
        "/etc/passwd",
        "/etc/shadow",
        "/etc/hosts",
        "/etc/hostname",
        "//etc/passwd",
        "/./etc/passwd",
        "/etc/../etc/passwd",
    ),
    *(
        "/",
        "/root",
        "/tmp",
        "/usr/bin/env",
        "~/.ssh/id_rsa",
        "~root/.bashrc",
        "$HOME/.profile",
        "C:\\Windows\\win.ini",
    ),
    # out of the folder
    *(
        "..",
        "../",
        "../secret.txt",
        "../../../../../../etc/passwd",
        "./../secret.txt",
        "report.txt/../../secret.txt",
    ),
    *(
        "inner/../../secret.txt",
        "....//secret.txt",
        "..\\secret.txt",
        "%2e%2e/secret.txt",
        "..%2fsecret.txt",
    ),
    *(".", "", "inner", "report.txt/x", "report.txt\0", "\0/etc/passwd", "x" * 5000),
    # links
    *(
        "link.txt",
        "link_to_link.txt",
        "link_to_folder/secret.txt",
        "link_to_root/etc/passwd",
        "circle.txt",
        "inner/up/../secret.txt",
    ),
    # addresses
    *(
        "file:///etc/passwd",
        "file:/etc/passwd",
        "file:report.txt",
        "http://127.0.0.1:1/x",
        "https://example.org/x",
    ),
    *(
        "s3://bucket/key",
        "ftp://127.0.0.1/x",
        "data:text/plain,x",
        "\\\\127.0.0.1\\share\\x",
        "gopher://127.0.0.1/",
    ),
    # the kernel's
    *(
        "/proc/self/environ",
        "/proc/self/cmdline",
        "/proc/1/environ",
        "/proc/self/fd/0",
        "/proc/self/root/etc/passwd",
    ),
    *(
        "/sys/kernel/notes",
        "/dev/zero",
        "/dev/random",
        "/dev/stdin",
        "/dev/tty",
        "/dev/mem",
        "device.txt",
        _FIFO,
    ),
)


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
    """Return whether somebody reads from the pipe, or waits for it."""
    try:
        os.close(os.open(folder / _FIFO, os.O_WRONLY | os.O_NONBLOCK))
    except OSError:  # ENXIO: nobody does
        return False
    return True
