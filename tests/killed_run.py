"""A run of an experiment, to be killed: python -m tests.killed_run FOLDER URL."""

import sys
from pathlib import Path

from langchain_openai import ChatOpenAI

from briefcontext.evaluation.runs.run import Run
from tests.questions import run_settings
from tests.simulated_reader import MODEL

QUESTIONS = 4
METHODS = ("vanilla", "map_reduce")


def make_run(folder: Path, url: str) -> Run:
    """The run that is killed and resumed."""
    chat = ChatOpenAI(model=MODEL, base_url=url, api_key="none", max_retries=0)
    return Run(run_settings(folder, "position", QUESTIONS, model=chat, methods=METHODS, ks=(8,)))


if __name__ == "__main__":
    make_run(Path(sys.argv[1]), sys.argv[2]).execute(Path(sys.argv[1]) / "run")
