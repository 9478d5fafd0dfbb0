"""Streaming XML: the elements that are wanted, one by one, in memory bounded by the largest of them."""

from collections.abc import Iterator, Sequence
from contextlib import suppress
from io import BufferedIOBase
from typing import Any

from lxml import etree

from briefcontext.knowledge.sources.source import DAMAGED_GZIP, UnreadableError

CHUNK_BYTES = 1 << 16
PROLOG_BYTES = 1 << 20
"""How far to read for the first expected element before the source is taken for something else."""
# huge_tree stays off: it would lift libxml2's limits on depth, on text nodes and on entity amplification.
_SAFE: Any = {
    **{"load_dtd": False, "no_network": True, "resolve_entities": False, "huge_tree": False},
    **{"remove_comments": True, "remove_pis": True},
}


def stream_elements(
    stream: BufferedIOBase, wanted: Sequence[str], within: Sequence[str] = ()
) -> Iterator[etree._Element]:
    """The outermost elements of `stream` with a tag in `wanted`, each emptied once the next is asked for.

    External entities and DTDs are never loaded, entities never expanded: see `unresolved_entity`.

    Raises:
        UnreadableError: after the elements before it there is a break: malformed or truncated XML, a limit of the
            parser. Or the source shows no element of `wanted` or `within`.
    """
    parser: Any = etree.XMLPullParser(events=("start", "end"), tag=(*wanted, *within), **_SAFE)
    names = {name.rpartition("}")[2] for name in wanted}
    recognised, bytes_read, chunk = False, 0, b"-"
    broken: tuple[int, str] | None = None
    while chunk and broken is None:
        # Where compressed data is damaged, `read` would lose what it gathered before; `read1` has handed it out.
        chunk = stream.read1(CHUNK_BYTES)
        bytes_read += len(chunk)
        try:
            if chunk:
                parser.feed(chunk)
            else:
                parser.close()
        except etree.XMLSyntaxError as error:
            broken = (error.lineno or 1, error.msg or "no message")
        # An undeclared entity is an error that `feed` keeps to itself: fed on, it would begin a new document.
        for fatal in parser.feed_error_log.filter_from_fatals():
            broken = broken or (fatal.line, fatal.message)
        for event, element in parser.read_events():
            recognised = True
            if event == "end" and local_name(element) in names and next(element.iterancestors(*wanted), None) is None:
                if (parent := element.getparent()) is not None:
                    del parent[: parent.index(element)]
                yield element
                element.clear()
        if broken is not None:
            raise UnreadableError(f"The XML could not be read from here on: {broken[1]}", f"line {broken[0]}")
        if not recognised and (not chunk or bytes_read > PROLOG_BYTES):
            missing = f"No element {' or '.join((*within, *wanted))} was found."
            raise UnreadableError(missing, "start of the source")


def root_name(stream: BufferedIOBase) -> str | None:
    """The name of the root element, without its namespace; None where the stream does not begin like XML."""
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
    """The element's name without its namespace."""
    return str(element.tag).rpartition("}")[2]


def unresolved_entity(element: etree._Element) -> str | None:
    """Why an element is rejected whose text has an entity reference, such as `&nbsp;`; None where it has none."""
    entity = next(element.iter(etree.Entity), None)
    return None if entity is None else f"It uses the entity {entity.text}, and entities are not resolved."


def flatten(element: etree._Element | None) -> str:
    """All text inside, markup and MathML included, in reading order, with white space collapsed."""
    return "" if element is None else " ".join("".join(map(str, element.itertext())).split())


def texts(element: etree._Element, path: str) -> list[str]:
    """The texts of all elements at a path that have some."""
    return [text for found in element.iterfind(path) if (text := flatten(found))]


def first_text(element: etree._Element, *paths: str) -> str:
    """The first of the paths' texts that is not empty, each path's first element alone; "" when there is none."""
    return next(filter(None, (flatten(element.find(path)) for path in paths)), "")
