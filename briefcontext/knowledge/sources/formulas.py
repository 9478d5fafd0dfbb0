"""Formulas in TeX as one line of plain text: `√(a×b/3600)`, `a/(72×b)`."""

from collections.abc import Sequence
from functools import cache
from typing import Any

from lxml import etree
from pylatexenc.latex2text import LatexNodes2Text, MacroTextSpec, get_default_latex_context_db
from pylatexenc.latexwalker import LatexCharsNode, LatexGroupNode, LatexMacroNode

from briefcontext.knowledge.sources.xml_stream import flatten

SPELLINGS = {
    **dict.fromkeys((r"\dfrac", r"\tfrac", r"\cfrac"), r"\frac"),
    **dict.fromkeys((r"\left.", r"\right."), ""),
}
NAMES = ("log", "ln", "lg", "exp", "sin", "cos", "tan", "min", "max", "lim")
SIGNS = {"\\": "; ", "lbrack": "[", "rbrack": "]", "lvert": "|", "rvert": "|"}
BLANKS = (" ", ",", ";", ":", "quad", "qquad")
ROOTS = {"": "√", "2": "√", "3": "∛", "4": "∜"}
MATHML = {
    "mfrac": r"\frac{%s}{%s}",
    "msqrt": r"\sqrt{%s}",
    "msup": "{%s}^{%s}",
    "mover": "{%s}{%s}",
    **dict.fromkeys(("msub", "munder"), "{%s}_{%s}"),
    **dict.fromkeys(("msubsup", "munderover"), "{%s}_{%s}^{%s}"),
}
UNSEEN = ("annotation", "annotation-xml", "mphantom")
SUMS, PRODUCTS = "+-−±=<>≤≥,; ", "×·⋅*/"
OPEN, CLOSE = "([{", ")]}"
EDGE, FRACTION, FRACTION_END = "\x01", "\x02", "\x03"
"""Marks of the edges of words and exponents, and of fractions, until their neighbours are known."""


def formula_text(tex: str) -> str:
    """Return a formula in TeX, or a TeX document that holds one, as one line of plain text."""
    _, begin, document = tex.partition(r"\begin{document}")
    tex = document.partition(r"\end{document}")[0] if begin else tex
    for name, alike in SPELLINGS.items():
        tex = tex.replace(name, alike)
    try:
        return " ".join(_settled(_reader().latex_to_text(tex.strip().strip("$"))).split())
    except Exception:  # noqa: BLE001 - errors of pylatexenc for broken TeX are not documented
        return " ".join(tex.split())


def mathml_tex(element: etree._Element) -> str:
    """Return MathML, whose names have no namespace, as TeX."""
    name = str(element.tag)
    if not len(element):
        plain = "".join(f"\\{sign}" if sign in "%&#_{}$" else sign for sign in flatten(element))
        return f"\\text{{{plain}}}" if name == "mtext" else f"{{{plain}}}"
    parts = [mathml_tex(child) for child in element if str(child.tag) not in UNSEEN]
    if name == "mroot" and len(parts) == 2:
        return f"\\sqrt[{parts[1]}]{{{parts[0]}}}"
    if name in MATHML and len(parts) == MATHML[name].count("%s"):
        return MATHML[name] % tuple(parts)
    if name == "mfenced":
        return f"{element.get('open', '(')}{','.join(parts)}{element.get('close', ')')}"
    inner = "".join(parts)
    return f"{inner}\\quad " if name in ("mtd", "mtr") else f"{{{inner}}}"


def with_superscript(before: str, raised: str) -> str:
    """Return a text and what is raised after it: `10^9`, or a citation as in `[9]`.

    After a blank it is no exponent, as in `18F`. Digits after a full stop or a sign are a citation.
    """
    raised = raised.strip()
    last = before[-1:]
    if not raised or not last or last.isspace() or last in "([{/":
        return before + raised
    if last.isalnum() or last in f"{CLOSE}|":
        ordinal = last.isdigit() and raised in ("st", "nd", "rd", "th")
        mark = not any(map(str.isalnum, raised)) and raised not in ("+", "-", "−")
        compound = any(sign in raised[1:-1] for sign in "+-−×·* ")
        exponent = f"({raised})" if compound and not _is_closed(raised) else raised
        return before + (raised if ordinal or mark else f"^{exponent}")
    return before + (f"[{raised}]" if raised[0].isdigit() else raised)


def with_subscript(before: str, lowered: str) -> str:
    """Return a text and what is lowered after it: `H2O`, but `10_2`."""
    lowered = lowered.strip()
    digits = before[-1:].isdigit() and lowered[:1].isdigit()
    return f"{before}{'_' if digits else ''}{lowered}"


class _Reader(LatexNodes2Text):  # type: ignore[misc]
    """TeX to text, in which blanks of a formula mean nothing."""

    def nodelist_to_text(self, nodelist: Sequence[Any]) -> str:
        line = ""
        for node in nodelist or ():
            if isinstance(node, LatexCharsNode):
                pieces = list("".join(node.chars.split()))
            else:
                pieces = [self.node_to_text(node)]
            for piece in filter(None, pieces):
                line = _joined(line, piece)
        return line

    def group_node_to_text(self, node: LatexGroupNode) -> str:
        text = self.nodelist_to_text(node.nodelist)
        return _word(text) if text.isalpha() and len(text) > 1 else text


@cache
def _reader() -> _Reader:
    context = get_default_latex_context_db()
    macros = [
        MacroTextSpec("frac", simplify_repl=_fraction),
        MacroTextSpec("sqrt", simplify_repl=_root),
        MacroTextSpec("text", simplify_repl=_words),
        *(MacroTextSpec(name, simplify_repl=_word(name)) for name in NAMES),
        *(MacroTextSpec(name, simplify_repl=sign) for name, sign in SIGNS.items()),
        *(MacroTextSpec(name, simplify_repl=" ") for name in BLANKS),
    ]
    context.add_context_category("formulas", macros=macros, prepend=True)
    return _Reader(context, math_mode="text")


def _word(text: str) -> str:
    return f"{EDGE}{text}{EDGE}"


def _words(node: LatexMacroNode) -> str:
    return _word(" ".join(LatexNodes2Text().nodelist_to_text(node.nodeargd.argnlist).split()))


def _arguments(node: LatexMacroNode, reader: LatexNodes2Text) -> list[str]:
    return [_settled(reader.nodelist_to_text([part])) for part in node.nodeargd.argnlist]


def _root(node: LatexMacroNode, l2tobj: LatexNodes2Text) -> str:
    degree, radicand = _arguments(node, l2tobj)
    return f"{ROOTS.get(degree, f'{degree}√')}({radicand})"


def _fraction(node: LatexMacroNode, l2tobj: LatexNodes2Text) -> str:
    over, below = _arguments(node, l2tobj)
    numerator = f"({over})" if any(sign in SUMS for sign in _outside(over)[1:]) else over
    denominator = below if _is_factor(below) else f"({below})"
    return f"{FRACTION}{numerator}/{denominator}{FRACTION_END}"


def _is_factor(text: str) -> bool:
    """Return whether a text is one number, name, power or bracket."""
    word = text.replace("^", "").replace(".", "")
    if word.isalnum():
        return word.isdigit() or not text[0].isdigit()
    return _is_closed(text.lstrip("√"))


def _is_closed(text: str) -> bool:
    return text[:1] in OPEN and len(_outside(text)) == 2


def _outside(text: str) -> str:
    depth, outside = 0, ""
    for sign in text:
        depth -= sign in CLOSE
        outside += "" if depth > 0 else sign
        depth += sign in OPEN
    return outside


def _joined(line: str, piece: str) -> str:
    if line[-1:] not in ("^", "_"):
        return line + piece
    base, mark, script = line[:-1].rstrip(EDGE), line[-1], _settled(piece)
    operators = any(sign in SUMS + PRODUCTS for sign in script[1:-1])
    if mark == "_" and base[-1:].isalnum() and not operators:
        return with_subscript(base, script) + EDGE
    core = script.strip("+-−").replace(".", "")
    plain = len(core) <= 1 or core.isdigit() or _is_closed(script)
    return f"{base}{mark}{script if plain else f'({script})'}{EDGE}"


def _settled(text: str) -> str:
    """Return a text without marks: with brackets around a fraction that is next to a factor."""
    line, *others = text.split(FRACTION)
    for other in others:
        fraction, _, rest = other.partition(FRACTION_END)
        last, following = line.rstrip(EDGE)[-1:], rest.lstrip(EDGE)[:1]
        if line[-1:].isdigit() and fraction[0].isdigit():
            fraction = f" {fraction}"
        elif (last and (last.isalnum() or last in f"{CLOSE}/")) or (
            following and (following.isalnum() or following in f"{OPEN}√^_")
        ):
            fraction = f"({fraction})"
        line += fraction + rest
    words = [word for word in line.split(EDGE) if word]
    line = "".join(words[:1])
    for word in words[1:]:
        line += f" {word}" if line[-1].isalnum() and word[0].isalnum() else word
    return line
