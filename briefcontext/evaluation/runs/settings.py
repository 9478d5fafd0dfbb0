"""The settings of a run."""

import json
import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from platform import python_version
from typing import TYPE_CHECKING, Any, Literal

from langchain_core.language_models import BaseChatModel

from briefcontext.chains.model.chat_model import model_name
from briefcontext.errors import InputError, needing
from briefcontext.evaluation.experiments.controlled import Order
from briefcontext.evaluation.experiments.corpus import Corpus
from briefcontext.evaluation.experiments.experiment import Experiment
from briefcontext.evaluation.methods.method import Method
from briefcontext.evaluation.runs.progress import Prices
from briefcontext.graphs.settings import Settings

if TYPE_CHECKING:
    from briefcontext.knowledge.encoders import Encoder

_VERSIONED = (
    "briefcontext", "langchain", "langchain-core", "langchain-openai", "langgraph", "pylance", "numpy", "scipy",
    "scikit-learn", "statsmodels", "torch", "sentence-transformers",
)  # fmt: skip
_NEEDS = {
    "key_documents": "key documents",
    "whole": "a whole long document",
    "fused": "a fused ranking of the corpus",
}


@dataclass(frozen=True)
class RunSettings:
    """The settings of a run."""

    experiment: str
    data_set: str
    """As `load_data_set` takes it."""
    model: str | BaseChatModel | None = None
    extract_model: str | BaseChatModel | None = None
    knowledge_base: str | Corpus | None = None
    """A folder, `demo`, or one that is open."""
    document_encoder: "str | Encoder | None" = None
    """Encoder of the chunks of long documents; None for OP-RAG's own, bge, where its weights are in the local cache,
    and else minilm."""
    exact_chunks: bool = False
    """Whether their chunks end at 128 tokens exactly, as OP-RAG's do, and not at the nearest sentence."""
    methods: tuple[str, ...] = ()
    ks: tuple[int, ...] = ()
    seed: int = 0
    limit: int | None = None
    per_class: int | None = None
    temperature: float | None = 0.0
    """Of models that are named, None for the provider's own default; a model that is given open keeps its own."""
    repeats: int = 1
    """Times that every question is asked, sampled afresh."""
    rankings: Literal["synthetic", "real"] = "synthetic"
    """Of the experiment conflict."""
    prices: Prices = field(default_factory=Prices)
    figures: bool = True
    progress: bool = True
    """Whether to tell of it on standard error."""
    reading: Settings = field(default_factory=lambda: Settings(max_concurrent_calls=8))
    """How the graph reads: partition size, preflight, limits, retries. A calibrated preflight is for experiments on
    real rankings."""

    @property
    def own_temperature(self) -> float | None:
        """The temperature that the run sets; None where it is the provider's, or that of a model given open."""
        return None if isinstance(self.model, BaseChatModel) else self.temperature


def check_settings(
    settings: RunSettings, experiment: type[Experiment], methods: Sequence[Method]
) -> None:
    """Raise InputError where repeats would tell nothing, or the experiment is not for these methods."""
    if settings.repeats > 1 and not experiment.repeatable:
        raise InputError(
            f"Repeats average scores, and the experiment {settings.experiment} counts what becomes "
            f"of single "
            "answers. Leave --repeats out."
        )
    if (
        settings.repeats > 1
        and settings.own_temperature is not None
        and settings.own_temperature <= 0
    ):
        raise InputError(
            "At temperature 0 a model is asked to say the same each time, so that repeats tell "
            "nothing. Give "
            "--temperature, such as 0.7, or a negative one for the provider's own."
        )
    if experiment.name == "open_ended" and len(methods) != 2:
        raise InputError(
            f"Pairs are made of two methods, and {len(methods)} are given. Name two with --method."
        )
    lacking = {"key_documents" if issubclass(experiment, Order) else "whole"}
    if not experiment.real_rankings:
        lacking.add("fused")
    for method in methods:
        if method.need in lacking:
            raise InputError(
                f"{method.name} reads {_NEEDS[method.need]}, which the experiment "
                f"{experiment.name} does not have. "
                "Leave it out."
            )


def given_name(model: str | BaseChatModel | None) -> str | None:
    """Return the name by which a model was given."""
    return model if isinstance(model, str) or model is None else model_name(model)


def own_arguments(model: str | BaseChatModel | None) -> Any:
    """Return what a chat model that was given open is called with; None for one that the run opens."""
    return (
        json.loads(json.dumps(model.asdict(), default=str))
        if isinstance(model, BaseChatModel)
        else None
    )


def paper_encoder() -> str:
    """Return the encoder of OP-RAG, bge, where its weights are in the local cache, and else minilm."""
    with needing(
        "encoders", "experiments with dense retrieval need the package sentence-transformers"
    ):
        from huggingface_hub import try_to_load_from_cache

    from briefcontext.knowledge.encoders.sentence_transformer import BGE_MODEL

    return "bge" if isinstance(try_to_load_from_cache(BGE_MODEL, "modules.json"), str) else "minilm"


def git_commit(file: Path = Path(__file__)) -> str | None:
    """Return the commit that a file of this package is at, with a mark where the code was changed.

    None where no repository holds the file: a package that is installed within somebody's
    repository is not of it.
    """
    folder, name = file.resolve().parent, file.name
    try:
        _, described = (
            subprocess.run(
                ["git", "-C", str(folder), *words],
                capture_output=True,
                text=True,
                check=True,
                timeout=10,
            )
            for words in (
                ["ls-files", "--error-unmatch", name],
                ["describe", "--always", "--abbrev=40", "--exclude=*", "--dirty=, changed"],
            )
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return described.stdout.strip()


def provenance(encoder_revision: str) -> dict[str, Any]:
    """Return what a run was made by: the command, the code's commit, and the revision of the encoder."""
    return {"command": sys.argv, "git_commit": git_commit(), "encoder_revision": encoder_revision}


def versions() -> dict[str, str]:
    """Return the versions of Python and of the packages that results depend on."""
    found = {"python": python_version()}
    for name in _VERSIONED:
        with suppress(PackageNotFoundError):
            found[name] = version(name)
    return found
