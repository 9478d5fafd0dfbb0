"""Formulas in TeX as one line of plain text, with their grouping: `√(a×b/3600)`, `a/(72×b)`."""

from collections.abc import Sequence
from functools import cache
from itertools import pairwise
from typing import Any

from lxml import etree
from pylatexenc.latex2text import LatexNodes2Text
from pylatexenc.latexwalker import (
    LatexCharsNode,
    LatexEnvironmentNode,
    LatexGroupNode,
    LatexMacroNode,
    LatexWalker,
)

from briefcontext.knowledge.sources.xml_stream import flatten

FRACTIONS = ("frac", "dfrac", "tfrac", "cfrac")
WORDS = ("text", "textrm", "textit", "textbf", "mathrm", "mbox", "operatorname", "textsf")
NAMES = ("log", "ln", "lg", "exp", "sin", "cos", "tan", "min", "max", "lim", "sup", "inf")
BLANKS = (" ", ",", ";", ":", "quad", "qquad")
LAYOUTS = {
    "mfrac": r"\frac{%s}{%s}",
    "msqrt": r"\sqrt{%s}",
    **{"msup": "{%s}^{%s}", "mover": "{%s}^{%s}", "msub": "{%s}_{%s}", "munder": "{%s}_{%s}"},
    **{"msubsup": "{%s}_{%s}^{%s}", "munderover": "{%s}_{%s}^{%s}"},
}
UNSEEN = ("annotation", "annotation-xml", "maligngroup", "mphantom", "mspace")
OPEN, CLOSE = "([{", ")]}"
SYMBOLS = {
    **dict.fromkeys(("", "!", "left", "right", "displaystyle", "limits"), ""),
    **{"%": "%", "neq": "≠", "lbrack": "[", "rbrack": "]", "lvert": "|", "rvert": "|"},
}


def formula_text(tex: str) -> str:
    """Return a formula in TeX, or a TeX document that holds one, as one line of plain text."""
    _, begin, document = tex.partition(r"\begin{document}")
    tex = document.partition(r"\end{document}")[0] if begin else tex
    try:
        nodes = LatexWalker(tex.strip().strip("$"), tolerant_parsing=True).get_latex_nodes()[0]
        return " ".join(_line(nodes or []).split())
    except Exception:  # noqa: BLE001 - errors of pylatexenc for broken TeX are not documented
        return " ".join(tex.split())


def mathml_tex(element: etree._Element) -> str:
    """Return MathML, whose names have no namespace, as TeX."""
    name = str(element.tag)
    if name in ("mi", "mn", "mo", "mtext"):
        text = "".join(map(str, element.itertext())).strip()
        plain = "".join(f"\\{sign}" if sign in "%&#_{}$" else sign for sign in text)
        return f"\\text{{{plain}}}" if name == "mtext" else f"{{{plain}}}"
    parts = [mathml_tex(child) for child in element if str(child.tag) not in UNSEEN]
    if name in LAYOUTS and len(parts) == LAYOUTS[name].count("%s"):
        return LAYOUTS[name] % tuple(parts)
    if name == "mroot" and len(parts) == 2:
        return f"\\sqrt[{parts[1]}]{{{parts[0]}}}"
    inner = "".join(parts[:1] if name == "semantics" else parts) or flatten(element)
    if name == "mfenced":
        inner = f"{element.get('open', '(')}{','.join(parts)}{element.get('close', ')')}"
    return f"{inner}\\quad " if name in ("mtd", "mtr") else f"{{{inner}}}"


def with_superscript(before: str, raised: str) -> str:
    """Return a text and what is raised after it, as in `10^9`; a citation's number as in `[9]`.

    After a blank it is no exponent, as in `18F`. Digits after a full stop or a sign are a citation.
    """
    raised = raised.strip()
    last = before[-1:]
    if not raised or not last or last.isspace() or last in "([{/":
        return before + raised
    if last.isalnum() or last in f"{CLOSE}|":
        ordinal = last.isdigit() and raised in ("st", "nd", "rd", "th")
        mark = not any(map(str.isalnum, raised)) and raised not in ("+", "-", "−")
        return before + (raised if ordinal or mark else f"^{_grouped(raised)}")
    return before + (f"[{raised}]" if raised[0].isdigit() else raised)


def with_subscript(before: str, lowered: str) -> str:
    """Return a text and what is lowered after it: `H2O`, but `10_2`, as 102 is another number."""
    lowered = lowered.strip()
    digits = before[-1:].isdigit() and lowered[:1].isdigit()
    return f"{before}{'_' if digits else ''}{lowered}"


def _grouped(exponent: str) -> str:
    inner = exponent[1:]
    closed = exponent[0] in OPEN and exponent[-1] in CLOSE
    compound = any(sign in inner for sign in "+-−×·* ") and not closed
    return f"({exponent})" if compound else exponent


class _Fraction(str):
    """A fraction, which needs brackets next to a factor."""


class _Raised(str):
    """An exponent or an index, which a blank divides from a factor."""


def _line(nodes: Sequence[Any]) -> str:
    """Return nodes as one line; a fraction next to a factor is in brackets."""
    pieces = _pieces(nodes)
    line = ""
    for number, piece in enumerate(pieces):
        following = "".join(pieces[number + 1 : number + 2])[:1]
        mixed = line[-1:].isdigit() and piece[0].isdigit()
        if isinstance(piece, _Fraction):
            factor = following.isalnum() or (following and following in "√([{^_")
            divided = line[-1:] == "/" or ((line[-1:].isalnum() or line[-1:] in CLOSE) and line)
            if factor or (divided and not mixed):
                piece = f"({piece})"
            elif mixed:
                piece = f" {piece}"
        elif piece[0].isalnum() and not isinstance(piece, _Raised) and _is_raised(pieces, number):
            piece = f" {piece}"
        line += piece
    return line


def _is_raised(pieces: Sequence[str], number: int) -> bool:
    return number > 0 and isinstance(pieces[number - 1], _Raised)


def _pieces(nodes: Sequence[Any]) -> list[str]:
    """Return the parts of a formula; none is empty."""
    pieces: list[str] = []
    script = ""
    for node in _units(nodes):
        if isinstance(node, str) and node in "^_":
            script = node
            continue
        piece = node if isinstance(node, str) else _piece(node)
        words = piece[:1].isalpha() and pieces and pieces[-1][-1:].isalpha()
        if script and piece.strip():
            raised = _script("".join(pieces[-1:]), script, piece.strip())
            piece, script = _Raised(raised) if pieces else raised, ""
        elif words and isinstance(node, LatexGroupNode):
            piece = f" {piece}"
        pieces += [piece] if piece else []
    return pieces


def _script(base: str, mark: str, text: str) -> str:
    """Return an exponent or index as it follows its base; a compound one is in brackets."""
    if not base:
        return text
    compound = _has(text, "+-−=×·⋅, ")
    if mark == "_" and base[-1].isalnum() and not compound:
        return with_subscript(base, text)[len(base) :]
    unsigned = text[1:] if text[0] in "+-−" else text
    plain = len(unsigned) == 1 or unsigned.replace(".", "").isdigit()
    closed = text[0] in OPEN and text[-1] in CLOSE and not compound
    return f"{mark}{text if plain or closed else f'({text})'}"


def _units(nodes: Sequence[Any]) -> list[Any]:
    """Return nodes, their characters one by one without blanks, and no bracket of a bare `left`."""
    units: list[Any] = []
    for node in nodes:
        if isinstance(node, LatexCharsNode):
            bare = bool(units) and getattr(units[-1], "macroname", "") in ("left", "right")
            units += "".join(node.chars.split())[1 if bare and node.chars[:1] == "." else 0 :]
        else:
            units.append(node)
    return units


def _piece(node: Any) -> str:
    name = getattr(node, "macroname", None)
    if isinstance(node, LatexMacroNode):
        arguments = node.nodeargd.argnlist if node.nodeargd else []
        if name in FRACTIONS:
            over, under = (_line(_inner(argument)) for argument in arguments[-2:])
            return _Fraction(f"{_numerator(over)}/{_denominator(under)}")
        if name == "sqrt":
            degree = _line(_inner(arguments[0])) if arguments[0] else ""
            root = {"": "√", "2": "√", "3": "∛", "4": "∜"}.get(degree, f"{degree}√")
            return f"{root}({_line(_inner(arguments[-1]))})"
        if name in BLANKS:
            return " "
        if name in NAMES:
            return _Raised(name)
        if name in SYMBOLS:
            return SYMBOLS[name]
        if name == "\\":
            return "; "
        if name not in WORDS and len(arguments) == 1 and arguments[0] is not None:
            inner = _line(_inner(arguments[0]))
            return str(_names().nodelist_to_text([node])).strip() if len(inner) == 1 else inner
    elif isinstance(node, LatexGroupNode):
        return _line(node.nodelist)
    elif isinstance(node, LatexEnvironmentNode):
        return f" {_line(node.nodelist).replace('&', ' ').strip('; ')} "
    elif hasattr(node, "nodelist"):
        return _line(node.nodelist)
    return str(_names().nodelist_to_text([node]))


@cache
def _names() -> LatexNodes2Text:
    return LatexNodes2Text(strict_latex_spaces=True, math_mode="text")


def _inner(argument: Any) -> Sequence[Any]:
    return argument.nodelist if isinstance(argument, LatexGroupNode) else [argument]


def _numerator(text: str) -> str:
    return f"({text})" if _has(text, "+-−±=<>≤≥,; ") else text


def _denominator(text: str) -> str:
    factors = (text[:1].isdigit() and any(map(str.isalpha, text))) or any(
        (first.isalnum() and second in f"√{OPEN}") or (first in CLOSE and second not in CLOSE)
        for first, second in pairwise(text)
    )
    return f"({text})" if factors or _has(text, "+-−±=<>≤≥,; ×·⋅*/") else text


def _has(text: str, signs: str) -> bool:
    """Return whether a text has one of the signs outside its brackets, after its start."""
    depth = 0
    for place, sign in enumerate(text):
        depth += (sign in OPEN) - (sign in CLOSE)
        if place and not depth and sign in signs:
            return True
    return False
