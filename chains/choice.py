"""Reading which option a model chose out of whatever it wrote."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from briefcontext.chains.choice_reply import answer_fields, boxed_answers, plain
from briefcontext.chains.choice_value import OptionReader

__all__ = ["parse_choice"]

_ADJECTIVES = (
    r"(?:(?:most|single|very|best|correct|right|appropriate|accurate|likely|probable|suitable|chosen|selected|my)\s+)*"
)
_COPULA = (
    r"(?:\s*(?:to|for) (?:this|the|your) question)?(?:[,\s]+(?:therefore|thus|then|hence)[,\s])?"
    r"\s*(?:(?<=\bans)\.:?|(?:is|are|was|'s|would be|should be|must be|will be|has to be|seems to be|appears to be"
    r"|remains)\b"
    r"(?:\s+(?:therefore|thus|then|hence|clearly|definitely|most likely|likely|probably|indeed)\b)*|[:=→]|-+>"
    r"|=>|\s[-–—]+\s)"
)
_STATED = re.compile(
    rf"\b(?P<final>(?:final|ultimate|definitive|overall)\s+)?{_ADJECTIVES}"
    rf"(?:answers?(?:[ _](?:choice|letter|option))?|ans|choice|option|response|selection|verdict|conclusion"
    rf"|diagnosis)\b[\"'*_`\])]*{_COPULA}",
    re.IGNORECASE,
)
_CHOSEN = re.compile(
    r"(?:\b(?:I|we)(?:'d| would| will|'ll| shall| have|'ve| am|'m)?\s+(?:(?:therefore|thus|hence|have to|must)\s+)?"
    r"|^[ \t*_]*|[.!;] +)"
    r"(?:choose|chose|chosen|pick|picked|select|selected|go with|going with|went with|opt for|settle on"
    r"|conclude(?: that)?|vote for)"
    r"(?:\s+it is)?\s",
    re.IGNORECASE | re.MULTILINE,
)
_THOUGHT = re.compile(
    r"(?:(?:^|[.!?,;\n])\s*(?:(?:it|this|that)(?:'s| is| must be| should be| has to be)|(?:the|this|all)(?: available"
    r"| current| overall)? (?:evidence|data|results|findings) (?:clearly |strongly )?(?:suggests?|indicates?|supports?"
    r"|favou?rs?|points? to)(?: that)?(?: it is| it's)?)|"
    r"\bI(?:(?:'d| would)? (?:think|believe|say|guess)|(?:'m| am) (?:sure|certain|confident|convinced))(?: that)?"
    r"(?: it is| it's)?|"
    r"\b(?:based on|according to|given) [^,.\n]{0,300},|\b(?:leaves|leaving)(?: us)?(?: with)?(?: only)?)\s",
    re.IGNORECASE,
)
_CONCLUDED = re.compile(
    r"\b(?:therefore|thus|hence|so|in conclusion|in summary|to conclude|conclusion|ultimately|finally|in short"
    r"|in brief|on balance|it follows that)\b"
    r"[,:*]*\s+(?:it(?:'s| is| must be)\s+)?(?:I (?:choose|pick|select)\s+)?",
    re.IGNORECASE,
)
_CORRECT = re.compile(
    r"[\s\"'*_`)\],:]*(?:is|are|was|would be|must be|should be|seems|remains)\s+[*_]*"
    r"(?:(?:the|most|single|only|one|both|all|clearly|definitely|therefore|thus|also|likely|probably|indeed"
    r"|very|my|our|final)\s+)*[*_]*"
    r"(?:(?:best|correct|right|true|most appropriate|appropriate|most likely|likely|most accurate|accurate"
    r"|most suitable)\s+(?:answers?|choices?|options?|diagnosis|one)\b"
    r"|answers?\b|(?:final |best )?choice\b|(?:correct|right|best|true|likely|appropriate|accurate"
    r"|suitable)(?=[\s*_]*(?:[.,;:!)]|$|because\b|since\b|as\b|here\b)))",
    re.IGNORECASE,
)
_CONCLUDING = re.compile(
    r"\b(?:therefore|thus|hence|so|in conclusion|in summary|to conclude|overall|ultimately|finally"
    r"|all in all)\b[^.!?\n]*$",
    re.IGNORECASE,
)
_THEN = re.compile(r"(?<!not )(?<!n't )\b(?:so|therefore|thus|hence)[,:]?\s+(?:(?:the|my)\s+)?\Z", re.IGNORECASE)
"""Ends a denial before it, as in "A and B are wrong so D"."""
_REVISION = re.compile(
    r"\b(?:actually|wait|correction|on second thought|on reflection|re-?consider\w*|revis\w+|scratch that|my mistake|"
    r"I was wrong|I made (?:a|an) (?:mistake|error)|sorry|instead|upon review|let me correct|I change my)\b",
    re.IGNORECASE,
)
_REVISED = re.compile(
    rf"(?:{_REVISION.pattern}[\s,:;.!–—-]*)+(?:(?:it(?:'s| is)|rather|make (?:it|that))\s+)?", re.IGNORECASE
)
_NO = re.compile(r"no\b[\s,:;.!–—-]*", re.IGNORECASE)
"""After a word of revision: part of it, where it is no option itself."""
_NOT_STATED = re.compile(
    r"\b(?:not|never|cannot|can't|doubt|whether|if|unless|neither|nor|wrong|incorrect|false|previous|initial|other|"
    r"thought|at first|initially|might (?:think|say|argue|suggest)|may (?:think|say|argue)|could (?:think|say"
    r"|argue)|tempting|"
    r"assum\w+|suppos\w+|had been|example)\b|n't\b",
    re.IGNORECASE,
)
_REJECTED = re.compile(
    r"\b(?:is|are|was|were|be|been|seems?|looks?)\s+(?:\w+\s+)?(?:incorrect|wrong|false|unlikely|inappropriate"
    r"|ruled out|excluded|"
    r"eliminated|rejected|untrue)\b|\b(?:is|are|was|does|do|did|can|could|would|should)(?:\s+not\b|n't\b|not\b)|"
    r"^\W*(?:incorrect|wrong|false|no|not|rejected|ruled out|eliminated|unlikely)\b|\brule[sd]? out\b"
    r"|\b(?:incorrect|wrong)\W*$",
    re.IGNORECASE,
)
_REFUSED = re.compile(
    r"\b(?:cannot|can't|can not|could not|couldn't|unable|impossible|not possible"
    r"|not able)\s+(?:\w+\s+){0,3}?(?:answer|determine\w*|decide|say|tell|choose|provide|"
    r"conclude|infer|assist|help|give)|\b(?:cannot|can't) be (?:determined|answered|concluded|inferred|known)|"
    r"\b(?:don't|do not) know\b|\b(?:insufficient|not enough|inadequate) (?:information|evidence|data|context)"
    r"|\bnone of (?:the|these) (?:options|choices|answers)|"
    r"\b(?:not|n't) (?:sure|certain|clear)\b|\bunclear\b|\bI (?:must |have to )?(?:refuse|decline)\b|\bas an AI\b",
    re.IGNORECASE,
)
_HEDGED = re.compile(
    r"\b(?:might|may|could|perhaps|possibly|whether|if|unless|unlike|versus|vs|compared|rather than|instead of)\b", re.I
)
_WITHDRAWN = re.compile(
    r"[\"'`*_)\]]*,?\s+(?:if|unless|(?:is|was|are|were)(?:n't| not| wrong| incorrect| unlikely"
    r"| ruled out)|(?:should|must|can|could|would)(?:n't| not| be (?:avoided|stopped|excluded|ruled out))"
    r"|(?:but|or) (?:maybe |perhaps |possibly )?not(?=\W*(?:[.!?]|\Z)))\b",
    re.IGNORECASE,
)
_LETTERED = re.compile(r"[,;.{|]\s*[\"'(\[]*([A-Z])(?:[\"'\])]*\s?[:=]|[\])](?=\s)|\.(?=\s+[A-Z]))")
_CITATION = re.compile(r"(?<=[\s\]])\[[^\[\]\n]{0,20}\d[^\[\]\n]{0,20}\]")
_LINE = re.compile(r"[^\n]+")


@dataclass(frozen=True, slots=True)
class _Conclusion:
    at: int
    letters: frozenset[str]
    """One letter, or none or several where the conclusion is not one option."""
    final: bool
    revises: bool = False


def parse_choice(output: str, options: Mapping[str, str]) -> str | None:
    """Return the letter, as in `options`, of the option that `output` settles on, else None.

    None means that it is not determined: nothing of it, two options at once ("A or B", "B, but maybe C"),
    conclusions that contradict each other, a letter that is no option, a condition ("B if …"), a refusal.
    There is no default.

    In this order: the answer field of a JSON object, a box or a tag; a stated answer ("the answer is (B)",
    "Answer: yes", "B is correct", "I choose B"), of which a final one or a revised one replaces those before
    it; what is thought or suggested ("I am sure it's B", "the evidence suggests yes"); a line that is a letter;
    a line that is an option; a line that begins with one; and, where all of these are missing and nothing is
    refused or denied, the only option whose words the text holds, in its last sentence. Reasoning between
    <think> tags does not count.
    """
    reader = OptionReader(options)
    text = plain(output)
    if not reader.letters or not text.strip():
        return None
    conclusions, rest = _marked(text, reader)
    rest = _CITATION.sub(lambda found: " " * len(found[0]), rest)
    conclusions = sorted([*conclusions, *_stated(rest, reader)], key=lambda each: each.at)
    if conclusions:
        return _only(_settled(conclusions, rest))
    if thought := [found for start in _THOUGHT.finditer(rest) if (found := _read(rest, start, reader, strict=True))]:
        return _only(frozenset[str]().union(*(each.letters for each in thought)))
    for lines in _lines(rest, reader):
        if lines:
            return _only(frozenset[str]().union(*lines))
    return _only(_mentioned(rest, reader))


def _only(letters: frozenset[str]) -> str | None:
    return next(iter(letters)) if len(letters) == 1 else None


def _marked(text: str, reader: OptionReader) -> tuple[list[_Conclusion], str]:
    """The conclusions in JSON, boxes and tags, and the text with these blanked out."""
    found = []
    for start, end, value in [*answer_fields(text), *boxed_answers(text)]:
        letters = reader.whole(value)
        if letters is None and len(value.split()) > 3:
            inner = parse_choice(value, reader.options)
            letters = frozenset([inner] if inner else [])
        found.append(_Conclusion(start, letters or frozenset(), True))
        text = text[:start] + re.sub(r"[^\n]", " ", text[start:end]) + text[end:]
    return found, text


def _settled(conclusions: list[_Conclusion], text: str) -> frozenset[str]:
    """What remains when final and revised conclusions have replaced those before them."""
    kept: list[_Conclusion] = []
    for each in conclusions:
        since = text[kept[-1].at : each.at] if kept else ""
        revised = each.revises or _REVISION.search(since)
        if revised or (each.final and not any(other.final for other in kept)):
            kept = []
        kept.append(each)
    if any(not each.letters for each in kept):
        return frozenset()
    return frozenset[str]().union(*(each.letters for each in kept))


def _stated(text: str, reader: OptionReader) -> Iterator[_Conclusion]:
    for pattern, strict in ((_STATED, False), (_CHOSEN, False), (_CONCLUDED, True)):
        for start in pattern.finditer(text):
            if found := _read(text, start, reader, strict=strict, final=pattern is _CONCLUDED):
                yield found
    for start in _REVISED.finditer(text):
        no = _NO.match(text, start.end())
        ends = [start.end(), *([no.end()] if no else [])]
        values = (reader.value(text, end, strict=True) for end in ends)
        value = next((value for value in values if value), None)
        if value and not _asked(text, value.end) and not _WITHDRAWN.match(text, value.end):
            yield _Conclusion(start.start(), value.letters, False, revises=True)
    after = 0
    for mention in reader.mentions(text):
        if mention.start >= after and (tail := _CORRECT.match(text, mention.end)):
            after = tail.end()
            before = _clause(text, mention.start)
            if not _NOT_STATED.search(before) and not _asked(text, tail.end()):
                yield _Conclusion(mention.start, mention.letters, bool(_CONCLUDING.search(before)))


def _read(
    text: str, start: re.Match[str], reader: OptionReader, *, strict: bool, final: bool = False
) -> _Conclusion | None:
    """The conclusion whose introduction `start` is, unless it is asked, denied or only supposed."""
    lead = start[0] if final else start[0][: len(start[0]) - len(start[0].lstrip(".!?,; \n"))]
    before = _clause(text, start.start() + len(lead))
    if _NOT_STATED.search(before):
        return None
    value = reader.value(text, start.end(), strict=strict)
    if value is None or _asked(text, value.end) or _WITHDRAWN.match(text, value.end):
        return None
    final = final or bool(start.groupdict().get("final")) or bool(_CONCLUDING.search(before))
    return _Conclusion(start.start(), value.letters, final)


def _clause(text: str, end: int) -> str:
    """What stands before `end` in its own clause."""
    start = max(
        text.rfind(mark, 0, end) for mark in (". ", "! ", "? ", "\n", ";", ", but ", ", so ", " but ", ", however")
    )
    comma = text.rfind(", ", max(start, 0), end)
    clause = text[max(start, 0) : end]
    # A condition or an aside holds beyond its comma; a plain denial does not.
    if re.search(r"\b(?:if|unless|suppos\w+|assum\w+|at first|initially)\b", clause, re.I):
        return clause
    if comma > start:
        clause = text[comma:end]
    then = _THEN.search(clause)
    return then[0] if then else clause


def _asked(text: str, at: int) -> bool:
    end = re.compile(r"[.!?\n]").search(text, at)
    return bool(end and end[0] == "?")


def _lines(text: str, reader: OptionReader) -> Iterator[list[frozenset[str]]]:
    """What lines say by themselves: lines that are a letter, that are an option, that begin with one."""
    letters, whole, begun = [], [], []
    for place, line in enumerate(_LINE.finditer(text)):
        said = _answering(line[0], reader)
        found = reader.line(said, first=place == 0)
        if found is None or _asked(said, 0) or _WITHDRAWN.match(found.rest):
            continue
        if found.kind == "letter":
            letters.append(found.letters)
        elif found.kind == "option":
            whole.append(found.letters)
        elif not (found.lettered and _REJECTED.search(re.split(r"(?<=[.!?])\s", found.rest, maxsplit=1)[0])):
            begun.append(found.letters | _beside(found.rest, reader))
    if _REFUSED.search(text):
        begun = []
    yield from (letters, whole, begun)


def _beside(rest: str, reader: OptionReader) -> frozenset[str]:
    """The options that a line lists behind its first, as in "A: 10%, B: 80%"."""
    listed = (reader.letters.get(found[1]) for found in _LETTERED.finditer(rest))
    return frozenset(letter for letter in listed if letter)


def _answering(line: str, reader: OptionReader) -> str:
    """What follows a question that offers options ("Yes or no? Yes."), or a clause that names none; else the line."""
    said = line.rstrip(" \t.!?;*_\"')")
    last = max(said.rfind("?"), said.rfind(";"))
    if last < 0:
        return line
    before, after = line[:last], line[last + 1 :]
    named = frozenset[str]().union(*(each.letters for each in reader.mentions(before)))
    if line[last] == "?":
        return after if len(named) > 1 else line
    lettered = not reader.letters.keys().isdisjoint(re.findall(r"\w+", before))
    return line if named or lettered or reader.line(before, first=False) else after


def _mentioned(text: str, reader: OptionReader) -> frozenset[str]:
    """The only option whose words are in the text, if it is in its last sentence and nothing denies it."""
    if _REFUSED.search(text):
        return frozenset()
    found = list(reader.worded(text))
    letters = frozenset[str]().union(*(each.letters for each in found))
    sentences = re.split(r"(?<=[.!?])\s+|\n+", text.strip())
    last = sentences[-1] if sentences else ""
    held = frozenset[str]().union(*(each.letters for each in reader.worded(last)))
    denied = re.search(
        r"\b(?:not|never|no|neither|nor|cannot|without|exclud\w+|reject\w*|wrong|incorrect|avoid\w*)\b|n't\b",
        reader.without_options(last),
        re.I,
    )
    return (
        letters
        if letters == held and not denied and not _HEDGED.search(last) and not last.endswith("?")
        else frozenset()
    )
