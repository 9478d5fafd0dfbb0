"""Verdicts on pairs of answers: taken from raters, or asked of a model in both orders."""

import asyncio
import re
from collections.abc import Sequence
from pathlib import Path

from briefcontext.chains.model.call import Request
from briefcontext.chains.model.event_loop import wait_for
from briefcontext.chains.model.limits import CallBudget
from briefcontext.errors import InputError
from briefcontext.evaluation.judging.pairs import Pair
from briefcontext.evaluation.judging.verdicts import VERDICTS, Verdict, keep_judged, keep_verdicts, read_verdicts
from briefcontext.evaluation.methods.models import RunModels
from briefcontext.prompts import BUNDLED

__all__ = ["import_verdicts", "judge_pairs"]

_SAID = re.compile(r"^[\s*_]*verdict[\s*_]*:[\s*_]*(a|b|tie)\b", re.IGNORECASE | re.MULTILINE)
_OTHER_SIDE = {"A": "B", "B": "A", "tie": "tie"}


def import_verdicts(folder: Path, file: Path, key: dict[str, dict[str, str]]) -> int:
    """Take a file of verdicts into a run, and return how many it holds.

    Raises:
        InputError: it holds none, or none on a pair of this run.
    """
    if not any(verdict.pair in key for verdict in read_verdicts(file)):
        raise InputError(f"{file} holds no verdict on a pair of this run. Give the file that belongs to its sheet.")
    return len(keep_verdicts(folder, file))


def judge_pairs(folder: Path, pairs: Sequence[Pair], models: RunModels, name: str, *, at_once: int = 8) -> int:
    """Ask a model about every pair in both orders; what it says differently in the two counts as a tie.

    Returns:
        how many pairs it judged differently in the two orders, or without a verdict.

    Raises:
        ModelError: a call failed for good.
    """
    said = wait_for(_judge(pairs, models, at_once))
    verdicts, unsure = [], 0
    for pair, (one, swapped) in zip(pairs, said, strict=True):
        agreed = one is not None and swapped is not None and one == _OTHER_SIDE[swapped]
        unsure += not agreed
        comment = "" if agreed else f"in this order {one or 'no verdict'}, in the other {swapped or 'no verdict'}"
        verdicts.append(Verdict(pair.id, one if agreed and one else "tie", name, comment))
    keep_judged(folder, name, verdicts)
    return unsure


async def _judge(pairs: Sequence[Pair], models: RunModels, at_once: int) -> list[tuple[str | None, str | None]]:
    gate = asyncio.Semaphore(at_once)

    async def ask(question: str, first: str, second: str) -> str | None:
        messages = BUNDLED.render("judge", question, {}, first=first, second=second)
        async with gate:
            words = await models.ask(Request("judge", messages), CallBudget())
        found = _SAID.findall(words)
        return VERDICTS[found[-1].casefold()] if found else None

    async def both(pair: Pair) -> tuple[str | None, str | None]:
        return await ask(pair.question, pair.a, pair.b), await ask(pair.question, pair.b, pair.a)

    return list(await asyncio.gather(*map(both, pairs)))
