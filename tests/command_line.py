"""The command line in this process."""

import sys
from collections.abc import Callable

import pytest

from briefcontext.cli import main

Run = Callable[..., tuple[int, str, str]]


def command_line(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """Return a function that runs `briefcontext`; it returns exit code, output and errors."""

    def run(*arguments: str) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["briefcontext", *arguments])
        with pytest.raises(SystemExit) as exit:
            main()
        output = capsys.readouterr()
        return int(exit.value.code or 0), output.out, output.err

    return run
