"""Reads one file of a stranger's in a process of its own, which may be ended at any time, and may crash.

It takes `{"name": …, "content": …}`, the file in base64, from its standard input, and writes the
document, or what is wrong with the file, as JSON. No file that has a name is made.
"""

import json
import sys
from base64 import b64decode
from collections.abc import Iterator
from io import BytesIO
from pathlib import PurePath

from langchain_core.documents import Document

from briefcontext.errors import BriefContextError, InputError
from briefcontext.knowledge.sources.exports import is_medline, read_medline
from briefcontext.knowledge.sources.files import ENDINGS, WHOLE_FILES
from briefcontext.knowledge.sources.source import Entry, only_document

MOST_PAGES = 200
MOST_CHARACTERS = 300_000
"""About 50,000 words, which one core encodes in half a minute."""
SECONDS = 30
"""To read a file."""
_MOST_MEMORY = 2 * 1024**3


def read_document(name: str, content: bytes) -> Document:
    """Return the one document of a file.

    Raises:
        BriefContextError: it cannot be read, holds several or none, or is too long.
    """
    document = only_document(name, _entries(name, content))
    pages = document.metadata.get("page_count", 0)
    length = len(document.page_content)
    for found, most, of in ((pages, MOST_PAGES, "pages"), (length, MOST_CHARACTERS, "characters")):
        if found > most:
            raise InputError(
                f"{name} has {found:,} {of}, and at most {most:,} can be read. Give a part of it."
            )
    return document


def _entries(name: str, content: bytes) -> Iterator[Entry]:
    ending, stream = PurePath(name).suffix.lower(), BytesIO(content)
    if ending in ENDINGS["jats"]:
        from briefcontext.knowledge.sources.jats import read_jats

        yield from read_jats(stream)
    elif ending in ENDINGS["medline"] and is_medline(content):
        yield from read_medline(stream)
    else:
        yield from next(read for format, read in WHOLE_FILES.items() if ending in ENDINGS[format])(
            stream, name
        )


def main() -> None:
    """Read what stands in the standard input."""
    import resource  # Not there on Windows, where no page takes files.

    # What a process had in memory when it crashed is not written to a file.
    limits = {resource.RLIMIT_CPU: SECONDS, resource.RLIMIT_CORE: 0}
    if sys.platform != "darwin":  # macOS has no limit of memory.
        limits[resource.RLIMIT_AS] = _MOST_MEMORY
    for kind, most in limits.items():
        resource.setrlimit(kind, (most, most))
    given = json.load(sys.stdin)
    try:
        document = read_document(given["name"], b64decode(given["content"], validate=True))
        told = {"text": document.page_content, "metadata": document.metadata, "id": document.id}
    except BriefContextError as error:
        told = {"error": str(error)}
    except ValueError:
        told = {"error": f"{given['name']} did not arrive whole: it is not base64."}
    json.dump(told, sys.stdout)


if __name__ == "__main__":
    main()
