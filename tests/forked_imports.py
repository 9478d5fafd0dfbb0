"""What most processes of the tests import: `forked_python` forks them from one that has done so."""

import gc
import importlib
import warnings
from contextlib import suppress

# What is imported stays to the end, and no forked process looks through it for garbage, which would
# copy it.
gc.disable()

# Lance starts its threads at its first use, and this process only imports it.
warnings.filterwarnings("ignore", "lance is not fork-safe")

for name in (
    *(
        "briefcontext.cli",
        "briefcontext.mcp_server",
        "briefcontext.page.app",
        "briefcontext.commands.report",
    ),
    *(
        "briefcontext.evaluation.runs.run",
        "briefcontext.graphs.graph",
        "briefcontext.graphs.long_document",
    ),
    *(
        "briefcontext.knowledge.build",
        "briefcontext.knowledge.encoders",
        "briefcontext.knowledge.sources.files",
    ),
    *(
        "lance.fragment",
        "lance.query",
        "langchain_openai",
        "langgraph.checkpoint.sqlite.aio",
        "langgraph_cli.cli",
    ),
    *("sentence_transformers.sentence_transformer.modules", "tests.conftest", "torch", "uvicorn"),
):
    with suppress(ImportError):
        importlib.import_module(name)

gc.enable()
gc.freeze()
