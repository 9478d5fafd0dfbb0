"""Reads one uploaded file in a separate process, which may be killed or crash.

The standard input is `{"name": …, "content": …}` with the file in base64. The standard output is
the document, or an error, as JSON. No named file is created.
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
"""Limit of about 50,000 words, which one core encodes in half a minute."""
SECONDS = 30
"""Seconds to read a file."""
_MOST_MEMORY = 2 * 1024**3


def read_document(name: str, content: bytes) -> Document:
    """Return the one document of a file.

    Raises:
        BriefContextError: The file is unreadable or too long, or does not contain one document.
    """
    document = only_document(name, _entries(name, content))
    pages = document.metadata.get("page_count", 0)
    length = len(document.page_content)
    for result, most, of in ((pages, MOST_PAGES, "pages"), (length, MOST_CHARACTERS, "characters")):
        if result > most:
            raise InputError(
                f"{name} has {result:,} {of}, and at most {most:,} can be read. Give a part of it."
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
    """Read the file in the standard input."""
    import resource  # Not there on Windows, where no page takes files.

    # A crash must not write the memory to a file.
    limits = {resource.RLIMIT_CPU: SECONDS, resource.RLIMIT_CORE: 0}
    if sys.platform != "darwin":  # macOS has no limit of memory.
        limits[resource.RLIMIT_AS] = _MOST_MEMORY
    for kind, most in limits.items():
        resource.setrlimit(kind, (most, most))
    given = json.load(sys.stdin)
    try:
        document = read_document(given["name"], b64decode(given["content"], validate=True))
        output = {"text": document.page_content, "metadata": document.metadata, "id": document.id}
    except BriefContextError as error:
        output = {"error": str(error)}
    except ValueError:
        output = {"error": f"{given['name']} is incomplete, because it is not base64."}
    json.dump(output, sys.stdout)


if __name__ == "__main__":
    main()
