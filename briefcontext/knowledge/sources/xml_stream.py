"""Elements of XML streams, one by one, in memory bounded by the largest of them."""

from collections.abc import Iterator, Sequence
from contextlib import suppress
from io import BufferedIOBase
from typing import Any

from lxml import etree

from briefcontext.knowledge.sources.source import DAMAGED_GZIP, UnreadableError

CHUNK_BYTES = 1 << 16
PROLOG_BYTES = 1 << 20
"""Bytes in which the first expected element must be."""
# huge_tree would lift libxml2's limits of depth, of text nodes and of entity amplification.
_SAFE: Any = {
    **{"load_dtd": False, "no_network": True, "resolve_entities": False, "huge_tree": False},
    **{"remove_comments": True, "remove_pis": True},
}


def stream_elements(
    stream: BufferedIOBase, wanted: Sequence[str], within: Sequence[str] = ()
) -> Iterator[etree._Element]:
    """Yield the outermost elements with a tag in `wanted`; each is emptied before the next.

    External entities and DTDs are not loaded, and entities not expanded: see `unresolved_entity`.
    Raises UnreadableError after the elements before a break, or if there is no element of `wanted`
    or `within`.
    """
    parser: Any = etree.XMLPullParser(events=("start", "end"), tag=(*wanted, *within), **_SAFE)
    names = {name.rpartition("}")[2] for name in wanted}
    recognised, bytes_read, chunk = False, 0, b"-"
    broken: tuple[int, str] | None = None
    while chunk and broken is None:
        # `read` would lose the bytes before damage in compressed data.
        chunk = stream.read1(CHUNK_BYTES)
        bytes_read += len(chunk)
        try:
            if chunk:
                parser.feed(chunk)
            else:
                parser.close()
        except etree.XMLSyntaxError as error:
            broken = (error.lineno or 1, error.msg or "no message")
        # `feed` does not raise the error of an undeclared entity, and would begin a new document.
        for fatal in parser.feed_error_log.filter_from_fatals():
            broken = broken or (fatal.line, fatal.message)
        for event, element in parser.read_events():
            recognised = True
            is_wanted = event == "end" and local_name(element) in names
            if is_wanted and next(element.iterancestors(*wanted), None) is None:
                if (parent := element.getparent()) is not None:
                    del parent[: parent.index(element)]
                yield element
                element.clear()
        if broken is not None:
            message = f"The XML could not be read from here on: {broken[1]}"
            raise UnreadableError(message, f"line {broken[0]}")
        if not recognised and (not chunk or bytes_read > PROLOG_BYTES):
            missing = f"No element {' or '.join((*within, *wanted))} was found."
            raise UnreadableError(missing, "start of the source")


def root_name(stream: BufferedIOBase) -> str | None:
    """Return the name of the root element, without its namespace; None if it is not XML."""
    parser: Any = etree.XMLPullParser(events=("start",), **_SAFE)
    names: list[str] = []
    with suppress(etree.XMLSyntaxError, *DAMAGED_GZIP):
        while not names and (chunk := stream.read1(CHUNK_BYTES)):
            try:
                parser.feed(chunk)
            finally:
                names += [local_name(element) for _, element in parser.read_events()]
    return names[0] if names else None


def local_name(element: etree._Element) -> str:
    """Return the element's name without its namespace."""
    return str(element.tag).rpartition("}")[2]


def unresolved_entity(element: etree._Element) -> str | None:
    """Return the problem of an element with an entity reference, such as `&nbsp;`."""
    entity = next(element.iter(etree.Entity), None)
    problem = "and entities are not resolved"
    return None if entity is None else f"It uses the entity {entity.text}, {problem}."


def flatten(element: etree._Element | None) -> str:
    """Return all text in an element, with white space collapsed."""
    return "" if element is None else " ".join("".join(map(str, element.itertext())).split())


def texts(element: etree._Element, path: str) -> list[str]:
    """Return the texts of all elements at a path that have some."""
    return [text for result in element.iterfind(path) if (text := flatten(result))]


def first_text(element: etree._Element, *paths: str) -> str:
    """Return the first text that is not empty, of the first element of each path."""
    return next(filter(None, (flatten(element.find(path)) for path in paths)), "")
