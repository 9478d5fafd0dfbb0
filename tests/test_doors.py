"""The same attacks on all three servers (`doors.py`)."""

from collections.abc import Iterator
from functools import cache

import pytest

from tests.doors import ATTACKS, DOORS, Door, Outcome, attack, open_doors
from tests.paths import PATHS

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def doors(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[Door]]:
    """The three servers, each once without and once with a token."""
    with open_doors(tmp_path_factory.mktemp("doors")) as opened:
        yield opened


@cache
def _outcomes(name: str, *doors: Door) -> dict[str, Outcome]:
    return attack(name, [*doors])


@pytest.mark.parametrize("door", [door.name for door in DOORS])
@pytest.mark.parametrize("name", ATTACKS)
def test_a_door_holds(name: str, door: str, doors: list[Door]) -> None:
    outcome = _outcomes(name, *doors)[door]
    assert outcome.held, outcome.happened


def test_the_list_is_long_enough() -> None:
    assert len(set(PATHS)) >= 50
    assert len(ATTACKS) >= 16
