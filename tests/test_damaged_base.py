"""A knowledge base with random bytes in one of Lance's files: each use works, or is one error."""

import random
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.knowledge_bases import build, record, source

pytestmark = pytest.mark.slow


def random_throughout(content: bytes, chance: random.Random) -> bytes:
    return chance.randbytes(len(content))


def random_inside(content: bytes, chance: random.Random) -> bytes:
    place = chance.randrange(len(content))
    return content[:place] + chance.randbytes(64) + content[place + 64 :]


def random_at_the_end(content: bytes, chance: random.Random) -> bytes:
    return content[:-40] + chance.randbytes(40)


def place_past_the_end(content: bytes, chance: random.Random) -> bytes:
    """Let the footer of a manifest name a place past its end: Lance's code panics."""
    return content[:-16] + len(content).to_bytes(8, "little") + content[-8:]


DAMAGES = (random_throughout, random_inside, random_at_the_end, place_past_the_end)


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("base") / "base"
    records = [record(str(n), f"Aspirin helps {n}.", year=2000 + n % 20) for n in range(100)]
    build(folder, source("a", *records))
    build(folder, source("b", record("b", "Ibuprofen.")))
    return folder


@pytest.mark.parametrize("damage", DAMAGES)
@pytest.mark.parametrize("place", range(12))
def test_each_use_of_a_damaged_base_works_or_is_one_error(
    place: int, damage: Callable[[bytes, random.Random], bytes], base: Path, tmp_path: Path
) -> None:
    files = sorted(
        file for file in base.rglob("*.*") if file.suffix in (".lance", ".manifest", ".txn")
    )
    files = [file for file in files if file.is_file() and file.stat().st_size]
    # Versions first: they are what is read of every table.
    files.sort(key=lambda file: "_versions" not in file.parts)
    file = files[place % len(files)]
    copy = shutil.copytree(base, tmp_path / "base")
    damaged = copy / file.relative_to(base)
    damaged.write_bytes(damage(file.read_bytes(), random.Random(place)))
    command = [sys.executable, "-m", "tests.damaged_base", str(copy)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    outcomes = done.stdout.splitlines()
    assert len(outcomes) == 11
    assert all(outcome.startswith(("fine", "KnowledgeBaseError: ")) for outcome in outcomes)
