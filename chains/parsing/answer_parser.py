"""Parsing of a free-text answer: abstention, choice, conflict and quotes."""

import re

from briefcontext.chains.citation import KEY
from briefcontext.chains.model.reply import Cut, cut_warning
from briefcontext.chains.parsing.choice import parse_choice
from briefcontext.chains.question import Question
from briefcontext.chains.reader import Draft, Quote
from briefcontext.chains.support import claims_beside_what_is_missing, says_only_what_is_missing

_HEADING = re.compile(r"^[ \t]*#+[ \t]*(\S.*)$", re.MULTILINE)
_STRAY_LINE = re.compile(
    r"^[ \t]*(?:```\w*|</?(?:evidence|documents?)\b[^>\n]*>|#+[ \t]*(?:final )?answer[ \t]*:?"
    r"|[*_]*confidence[*_]*[ \t]*:[*_ \t]*[\d.]+[ \t]*%?[*_]*)[ \t]*$\n?",
    re.IGNORECASE | re.MULTILINE,
)
"""A line of what the model was given, a fence around it all, or the word above it, and none of an answer."""
_OPENING_TAG = re.compile(r"<(?:evidence (?:reader|condensed)|document key)", re.IGNORECASE)
_KEY = re.compile(KEY, re.IGNORECASE)
_REPEATED = 30
"""Characters that do not stand in the instruction by chance."""
_CHOICE_LINE = re.compile(r"^[ \t*_]*choice[ \t*_]*:(?:[^\[\n]|\[\W*\w?\W*\])*$", re.IGNORECASE | re.MULTILINE)
"""Chooses and cites nothing: what a line cites is a part of the answer."""
_CONFLICT = r"[ \t*_#•-]*conflict(?:s|ing evidence)?[ \t*_]*:"
_CONFLICT_PART = re.compile(
    rf"^{_CONFLICT}[ \t*_]*(?P<words>(?:\n(?=.*\S).*)+|.*(?:\n[ \t]*(?:[-*•]|\d+[.)])[ \t].*)*)\n?",
    re.IGNORECASE | re.MULTILINE,
)
"""What is said of a conflict: the label's line with the bullets under it, or the paragraph under a bare label."""
_QUOTES_LINE = re.compile(r"^[ \t*_#]*quotes?[ \t*_]*:?[ \t*_]*(?=$|\[)", re.IGNORECASE | re.MULTILINE)
_BLANK_LINES = re.compile(r"\n\s*\n")
_AFTER_QUOTES = re.compile(rf"^(?:[ \t*_#•-]*choice[ \t*_]*:|{_CONFLICT})", re.IGNORECASE | re.MULTILINE)
_QUOTE_LINE = re.compile(
    rf"[ \t*•-]*(?:\d+[.)][ \t*]*)?(?:\[?((?<=\[)[^\]\n]+|{KEY})\]?[ \t*:–-]*)?(.*?)"
    r"(?:(?<=[\"”»])[ \t]*\[[^\]\n]{1,40}\]\W*)?"
)
"""Its key, where it has one, and its words; a key may also stand behind them."""
_NO_ANSWER = re.compile(
    r"[\s*_\"'`#]*(?:answer[\s*_]*:[\s*_]*)?no[ _-]answer[ \t*_\"'`]*"
    r"(?:[:.][\s*_\"'`]*|[ \t]+[-–—]+\s+|—\s*|\s*\Z|[ \t]*\n\s*)",
    re.IGNORECASE,
)
_YES_OR_NO = re.compile(r"\W*(yes|no)\b(?=[*_\"' ]*(?:[,.:;!—–-]|$))", re.IGNORECASE)
_INSUFFICIENT = re.compile(r"[\s*_\"'`#]*insufficient[ _-]evidence\b", re.IGNORECASE)
REFUSAL = re.compile(
    r"\W*(?:(?:(?:i['’]?m|i am) (?:\w+ )?)?sorry\b|i apologi[sz]e\b|as an ai\b"
    r"|please (?:ask|consult|contact|see|speak)\b"
    r"|i (?:can['’]?t|cannot|can not|won['’]?t|will not|(?:am|['’]m) (?:unable|not able) to) (?:\w+ ){0,2}"
    r"(?:advise|answer|assist|comment|diagnose|give|help|offer|provide|recommend|respond|rewrite)\b)",
    re.IGNORECASE,
)
"""A sentence of models that will not answer."""
_NO_REASON = "The reader says that the documents do not answer the question, and gives no reason."
_NO_CONFLICT = re.compile(
    r"(?:none|no|n/a|not applicable)\b.{0,20}$|\W*$"
    r"|(?!.*\b(?:but|however|although|though|while|whereas|except|yet)\b)[^.;]{0,99}?(?:"
    r"\bno (?:\w+ ){0,2}(?:conflicts?|contradictions?|disagreements?|inconsistenc\w+|discrepanc\w+)\b"
    r"|\bno (?:conflicting|contradictory)\b|(?:\bnot|n't) (?:\w+ly |in )?(?:conflict|contradict|disagree)"
    r"|\b(?:none|neither) (?:\w+ ){1,4}(?:conflict|contradict|disagree)"
    r"|(?<!not )(?<!n't )\b(?:agree|(?:are|is) (?:\w+ly )?consistent|in agreement|the same))[^.,;]*[.;\s]*$",
    re.IGNORECASE,
)
"""One sentence that says that there is none, and no more: behind a comma there may be one."""


def split_quotes(text: str) -> tuple[str, list[tuple[str, str]]]:
    """Split an answer from the list of quotes in it, each with its key: its own, or that of the line before."""
    body, *rest = _QUOTES_LINE.split(text, maxsplit=1)
    listed = "".join(rest)
    end = found.start() if (found := _AFTER_QUOTES.search(listed)) else len(listed)
    quotes, key = list[tuple[str, str]](), ""
    for paragraph in _BLANK_LINES.split(listed[:end]):
        before = len(quotes), key
        for line in paragraph.splitlines():
            own_key, words = _QUOTE_LINE.fullmatch(line).groups()  # type: ignore[union-attr]
            key = own_key or key
            if words and (own_key or words[0] in '"“„«'):
                quotes.append((key, words))
        # Behind the quotes, what is none is a part of the answer: it may be what limits it.
        if quotes and before == (len(quotes), key) and any(map(str.isalpha, paragraph)):
            body += f"\n\n{paragraph}"
    return body + listed[end:], quotes


def why_no_answer(text: str, question: Question, instruction: str) -> str | None:
    """Say why a reply is no answer at all; None for one.

    Args:
        text: the reply.
        question: what was asked.
        instruction: what the model was told to do, which some repeat.
    """
    # Quotes are no sentence, and may have such words: those of a document that would have its reader refused.
    body, _ = split_quotes(text)
    if _OPENING_TAG.search(body):
        return "it repeats what it was given"
    lines = [line.strip() for line in _STRAY_LINE.sub("", body).splitlines()]
    lines = [line for line in lines if any(letter.isalpha() for letter in line)]
    if all(line.endswith(":") and not _NO_ANSWER.match(line) for line in lines):
        return "it holds no sentence"
    own = [line for line in lines if line.removeprefix("Question:").strip() != question["text"].strip()]
    repeated = all(line in instruction for line in own) and (not own or sum(map(len, own)) >= _REPEATED)
    return "it repeats the prompt" if repeated else None


def parse_draft(
    text: str, question: Question, quotes: list[Quote], warnings: list[str], *, forced: bool, cut: Cut | None = None
) -> Draft:
    """Tell a refusal to answer, the choice, and what is said of a conflict, from the answer itself."""
    refusal = None if forced else _NO_ANSWER.match(text)
    options = question["options"]
    choice = parse_choice(text, options) if options and not refusal else None
    may_decline = choice is None and not forced and not _KEY.search(text)
    abstained = bool(refusal) or (may_decline and says_only_what_is_missing(text, or_else=REFUSAL))
    warnings = list(warnings)
    if forced and choice is not None:
        warnings.append("A choice was forced by the setting force_choice.")
    cautions = [cut_warning(cut, "The answer")] if cut else []
    words = _STRAY_LINE.sub("", text[refusal.end() :] if refusal else text)
    words = _CHOICE_LINE.sub("", words)
    if choice is not None and (_INSUFFICIENT.match(text) or says_only_what_is_missing(words, or_else=REFUSAL)):
        cautions.append(f"The choice {choice} is unsupported: the answer says that the evidence is insufficient.")
    said = _YES_OR_NO.match(words)
    others = {option.lower() for letter, option in options.items() if letter != choice}
    if choice is not None and said and said[1].lower() in others:
        cautions.append(f"The answer begins with {said[1]}, and chooses {choice} ({options[choice]}).")
    if abstained and (claims := claims_beside_what_is_missing(words)):
        cautions.append(f"The documents do not answer, and nothing supports what was said all the same: {claims[0]}")
    conflict = "\n".join(filter(None, (found["words"].strip() for found in _CONFLICT_PART.finditer(words))))
    body = re.sub(r"\n{3,}", "\n\n", _HEADING.sub(_label, _CONFLICT_PART.sub("", words)))
    return Draft(
        text=body.strip() or (_NO_REASON if refusal else ""),
        choice=choice,
        conflict=conflict if conflict and not _NO_CONFLICT.match(conflict) else None,
        quotes=quotes,
        abstained=abstained,
        warnings=warnings,
        cautions=cautions,
    )


def _label(heading: re.Match[str]) -> str:
    return f"{heading[1].rstrip(' #:')}:"
