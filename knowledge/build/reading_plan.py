"""Selection of the sources that a build has to read."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from briefcontext.knowledge.build.source_ledger import SourceLedger
from briefcontext.knowledge.sources.source import Source


@dataclass(frozen=True, slots=True)
class Reading:
    """A source whose turn has come."""

    source: Source
    entry: int
    """The number of its entry in the ledger."""
    number: int
    """From 1, among those that are read."""
    count: int
    """How many are read, as far as that can be told by now."""


class ReadingPlan:
    """The sources of a build in the order given, and which of them are to be read.

    What was read before is read again when its records may have become others since: when a source that does not
    follow it in this build took records over from it, or deleted them. So giving the same sources in the same order
    again reads nothing, and giving an older state of a file again brings that state back.
    """

    def __init__(self, ledger: SourceLedger, sources: Sequence[Source]) -> None:
        """Register the sources."""
        self._ledger = ledger
        self._sources = sources
        self._entries = [ledger.register(source) for source in sources]
        self._last = {source.fingerprint: place for place, source in enumerate(sources) if source.fingerprint}
        self.read: dict[int, int] = {}
        """The places in the list that were read, and under which entries."""

    def entry(self, place: int) -> int:
        """The entry that the source at a place in the list has by now."""
        return self._ledger.current(self._entries[place])

    def due(self) -> list[int]:
        """The entries of the sources that would have to be read now."""
        return [self.entry(place) for place in range(len(self._sources)) if self._is_due(place)]

    def __iter__(self) -> Iterator[Reading]:
        """Each source that is to be read; that is decided when its turn comes, after the ones before it were read."""
        count = len(self.due())
        for place, source in enumerate(self._sources):
            if not self._is_due(place):
                continue
            entry = self.entry(place)
            if self._ledger[entry].finished:
                entry = self._ledger.add(source)
            self.read[place] = entry
            number = len(self.read)
            yield Reading(source, entry, number, max(number, count))

    def _is_due(self, place: int) -> bool:
        entry = self.entry(place)
        if not self._ledger[entry].finished:
            return True
        return any(self._last.get(fingerprint, -1) <= place for fingerprint in self._ledger.displaced_by(entry))
