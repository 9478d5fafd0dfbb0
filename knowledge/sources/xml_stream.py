"""Streaming XML: the elements that are wanted, one by one, in memory bounded by the largest of them."""

from collections.abc import Iterator, Sequence
from typing import Any, BinaryIO

from lxml import etree

from briefcontext.knowledge.sources.file_source import DAMAGED_GZIP
from briefcontext.knowledge.sources.records import Reject

CHUNK_BYTES = 1 << 16
PROLOG_BYTES = 1 << 20
"""How far to read for the first expected element before the source is taken for something else."""


def stream_elements(
    stream: BinaryIO, wanted: Sequence[str], within: Sequence[str] = ()
) -> Iterator[etree._Element | Reject]:
    """The outermost elements of `stream` with a tag in `wanted`, each emptied once the next is asked for.

    A break (malformed or truncated XML, damaged gzip data, a limit of the parser) ends the stream with one
    Reject. So does a source that shows no element of `wanted` or `within`. External entities and DTDs are
    never loaded, entities never expanded: see `unresolved_entity`.
    """
    parser = _parser(events=("start", "end"), tag=(*wanted, *within))
    names = {name.rpartition("}")[2] for name in wanted}
    recognised = False
    current: etree._Element | None = None
    for bytes_read, problem in _feed(parser, stream):
        for event, element in parser.read_events():
            recognised = True
            if event == "start" and current is None and local_name(element) in names:
                current = element
            elif event == "end" and current is not None and element is current:
                _drop_earlier_siblings(current)
                yield current
                current.clear()
                current = None
        if problem is not None:
            yield problem
        elif not recognised and (bytes_read is None or bytes_read > PROLOG_BYTES):
            yield Reject("start of the source", f"No element {' or '.join((*within, *wanted))} was found.")
            return


def root_name(stream: BinaryIO) -> str | None:
    """The name of the root element, without its namespace; None where the stream does not begin like XML."""
    parser = _parser(events=("start",))
    for bytes_read, problem in _feed(parser, stream):
        for _, element in parser.read_events():
            return local_name(element)
        if problem is not None or bytes_read is None or bytes_read > PROLOG_BYTES:
            break
    return None


def _parser(**options: Any) -> Any:
    # huge_tree stays off: it would lift libxml2's limits on depth, on text nodes and on entity amplification.
    return etree.XMLPullParser(
        load_dtd=False,
        no_network=True,
        resolve_entities=False,
        remove_comments=True,
        remove_pis=True,
        huge_tree=False,
        **options,
    )


def _feed(parser: Any, stream: BinaryIO) -> Iterator[tuple[int | None, Reject | None]]:
    """Feed the parser; after each chunk the bytes so far, None at the end, and the break if there is one."""
    bytes_read = 0
    # Where compressed data is damaged, `read` would lose what it gathered before; `read1` has handed it out.
    read = getattr(stream, "read1", stream.read)
    try:
        while chunk := read(CHUNK_BYTES):
            parser.feed(chunk)
            bytes_read += len(chunk)
            if problem := _silent_break(parser):
                yield bytes_read, problem
                return
            yield bytes_read, None
        parser.close()
    except etree.XMLSyntaxError as error:
        yield bytes_read, _break(error.lineno or 1, error.msg or "no message")
    except DAMAGED_GZIP as error:
        yield bytes_read, Reject("end of the readable data", f"The compressed data is damaged: {error}")
    else:
        yield None, None


def _silent_break(parser: Any) -> Reject | None:
    """A fatal error that `feed` kept to itself, as lxml's does for an undeclared entity.

    Fed on, it would take what follows for a new document.
    """
    fatal = parser.feed_error_log.filter_from_fatals()
    return _break(fatal[0].line, fatal[0].message) if fatal else None


def _break(line: int, message: str) -> Reject:
    return Reject(f"line {line}", f"The XML could not be read from here on: {message}")


def _drop_earlier_siblings(element: etree._Element) -> None:
    parent = element.getparent()
    if parent is not None:
        while (earlier := element.getprevious()) is not None:
            parent.remove(earlier)


def local_name(element: etree._Element) -> str:
    """The element's name without its namespace."""
    return str(element.tag).rpartition("}")[2]


def unresolved_entity(element: etree._Element) -> str | None:
    """The first entity reference in `element`, such as `&nbsp;`: text there would be missing."""
    entity = next(element.iter(etree.Entity), None)
    return None if entity is None else entity.text


def flatten(element: etree._Element | None) -> str:
    """All text inside, markup and MathML included, in reading order, with white space collapsed."""
    return "" if element is None else " ".join("".join(map(str, element.itertext())).split())
