"""Streaming XML: the elements that are wanted, one by one, in memory bounded by the largest of them."""

import re
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
_POWER = re.compile(r"\s*([-+−–]?\d.*)", re.DOTALL)
_PARAGRAPHS = ("caption", "li", "p", "td", "th", "title")
"""What stands before one of them is no number whose exponent is in it."""
_NUMBER_END = re.compile(r"\d[.,]?\Z")


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


def write_out_formulas(element: etree._Element) -> None:
    """Have powers, fractions and names in formulas stay what they are in plain text: `10^9`, `1/2`, `VO2`.

    Without their marks they would be other numbers: 109, 12. So would citations that are raised, as in `2010[1]`.
    Blanks between the parts of MathML mean nothing.
    """
    for math in element.iter("{*}math"):
        for part in math.iterdescendants("{*}*"):
            part.tail = (part.tail or "").strip() or None
            if len(part):
                part.text = (part.text or "").strip() or None
        for over, _ in filter(lambda fraction: len(fraction) == 2, math.iter("{*}mfrac")):
            over.tail = "/"
    for raised in element.iter("{*}sup", "{*}msup"):
        if local_name(raised) == "msup" and len(raised) == 2:
            raised = raised[1]
        power = _POWER.fullmatch("".join(map(str, raised.itertext())))
        parent = raised.getparent()
        cited = raised.find("{*}xref") is not None or (parent is not None and local_name(parent) == "xref")
        if power and (cited or _is_behind_a_number(raised)):
            mark = " " if _is_numerator(raised) else "^"
            del raised[:]
            raised.text = f"[{power[1].strip()}]" if cited else f"{mark}{power[1]}"


def _is_numerator(raised: etree._Element) -> bool:
    """Return True for the first 1 of the fraction in 1 1/2, which is before a lower number."""
    below = raised.getnext()
    is_lower = below is not None and local_name(below) == "sub"
    return is_lower and (raised.tail or "").strip() in ("/", "⁄")


def _is_behind_a_number(element: etree._Element) -> bool:
    """Return whether a number ends right before an element, in the same paragraph or cell."""
    before: Any = element.xpath("preceding::text()[1]")
    if not before or not _NUMBER_END.search(before[0]):
        return False
    block = next((each for each in element.iterancestors() if local_name(each) in _PARAGRAPHS), None)
    above = before[0].getparent()
    return block is None or block in (above, *above.iterancestors())


def flatten(element: etree._Element | None) -> str:
    """All text inside, markup and MathML included, in reading order, with white space collapsed."""
    return "" if element is None else " ".join("".join(map(str, element.itertext())).split())


def texts(element: etree._Element, path: str) -> list[str]:
    """The texts of all elements at a path that have some."""
    return [text for found in element.iterfind(path) if (text := flatten(found))]


def first_text(element: etree._Element, *paths: str) -> str:
    """The first of the paths' texts that is not empty, each path's first element alone; "" when there is none."""
    return next(filter(None, (flatten(element.find(path)) for path in paths)), "")
