"""Removal of a reasoning model's thoughts from its replies."""

import re

__all__ = ["Spoken", "without_reasoning"]

_NAMES = ("think", "thinking", "reasoning")
_TAG = re.compile(rf"<(?P<closing>/?)(?P<name>{'|'.join(_NAMES)})>", re.IGNORECASE)
_TAGS = tuple(f"<{closing}{name}>" for name in _NAMES for closing in ("", "/"))


class Spoken:
    """Tells a reply from the reasoning before it, piece by piece; a tag may be split over pieces.

    Tags count where models write them: at the beginning. Further on they may be words of a document that are quoted.
    Only a closing tag without an opening one ends what the chat template has begun, unless the reply begins as JSON:
    then all that stands before it was a thought. A thought that is never finished is one to the end.
    """

    def __init__(self) -> None:
        self._held = ""
        self._within: str | None = None
        self._begin(trimmed=False)
        self.retracted = False
        """Whether what the pieces so far were taken for turned out to be a thought; `take` begins anew then."""

    def _begin(self, *, trimmed: bool) -> None:
        self._begun = False
        self._trimmed = trimmed
        self._json = False
        self._open = 0

    def take(self, piece: str) -> str:
        """Return what the reply goes on with; after setting `retracted`, what it begins with."""
        self._held += piece
        said = ""
        while found := self._next_tag():
            before, self._held = self._held[: found.start()], self._held[found.end() :]
            closing = bool(found["closing"])
            if self._within is None:
                said += self._word(before)
                if self._begun and (not closing or self._open or self._json):
                    said += found[0]
                    self._open += -1 if closing and self._open else 0 if closing else 1
                    continue
                if closing:
                    self.retracted, said = True, ""
            self._within = None if closing else found["name"].lower()
            if closing:
                self._begin(trimmed=True)
        sure = len(self._held) - _beginning_of_a_tag(self._held)
        before, self._held = self._held[:sure], self._held[sure:]
        return said if self._within else said + self._word(before)

    def end(self) -> str:
        """Return what was held back, as it might have been a tag."""
        held, self._held = self._held, ""
        return "" if self._within else self._word(held)

    def _next_tag(self) -> re.Match[str] | None:
        """Return the next tag that counts: inside a thought, the one that ends it."""
        for found in _TAG.finditer(self._held):
            ends = found["closing"] and found["name"].lower() == self._within
            if self._within is None or ends:
                return found
        return None

    def _word(self, text: str) -> str:
        if self._begun:
            return text
        text = text.lstrip() if self._trimmed else text
        if begins := text.lstrip()[:1]:
            self._begun, self._json = True, begins in "{[`"
        return text


def _beginning_of_a_tag(text: str) -> int:
    """Return how many characters at the end may be the beginning of a tag."""
    start = text.rfind("<")
    return len(text) - start if start >= 0 and any(tag.startswith(text[start:].lower()) for tag in _TAGS) else 0


def without_reasoning(text: str) -> str:
    """Return a reply without the reasoning before it; empty where it is nothing but an unfinished thought."""
    spoken = Spoken()
    said = spoken.take(text)
    return said + spoken.end()
