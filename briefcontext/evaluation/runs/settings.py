"""The settings of a run."""

import json
import sys
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from importlib.metadata import PackageNotFoundError, version
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
    "briefcontext", "langchain", "langchain-core", "langchain-openai", "langgraph", "pylance",
    "numpy", "scipy", "scikit-learn", "statsmodels", "torch", "sentence-transformers",
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
    model: str | BaseChatModel | None = None
    extract_model: str | BaseChatModel | None = None
    knowledge_base: str | Corpus | None = None
    """A folder, `demo`, or an open one."""
    document_encoder: "str | Encoder | None" = None
    """Encoder of the chunks of long documents; by default bge if its weights are in the local
    cache, else minilm."""
    exact_chunks: bool = False
    """Cut chunks at 128 tokens exactly, as OP-RAG does, and not at the nearest sentence."""
    methods: tuple[str, ...] = ()
    ks: tuple[int, ...] = ()
    seed: int = 0
    limit: int | None = None
    per_class: int | None = None
    temperature: float | None = 0.0
    """Of models given by name; None for the provider's default. An open model keeps its own."""
    repeats: int = 1
    """Times that every question is asked, sampled again each time."""
    rankings: Literal["synthetic", "real"] = "synthetic"
    prices: Prices = field(default_factory=Prices)
    figures: bool = True
    progress: bool = True
    reading: Settings = field(default_factory=lambda: Settings(max_concurrent_calls=8))
    """Settings of the graph: partition size, preflight, limits, retries."""

    @property
    def own_temperature(self) -> float | None:
        """The temperature that the run sets; None if it is the provider's or an open model's."""
        return None if isinstance(self.model, BaseChatModel) else self.temperature


def check_settings(
    settings: RunSettings, experiment: type[Experiment], methods: Sequence[Method]
) -> None:
    """Raise InputError for repeats without effect, or methods that do not fit the experiment."""
    if settings.repeats > 1 and not experiment.repeatable:
        raise InputError(
            f"The experiment {settings.experiment} counts single answers. Leave --repeats out."
        )
    temperature = settings.own_temperature
    if settings.repeats > 1 and temperature is not None and temperature <= 0:
        raise InputError(
            "At temperature 0 the repeats are equal. Give --temperature, such as 0.7, or a "
            "negative one for the provider's own."
        )
    if experiment.name == "open_ended" and len(methods) != 2:
        raise InputError(f"Pairs need two methods, got {len(methods)}. Name two with --method.")
    lacking = {"key_documents" if issubclass(experiment, Order) else "whole"}
    if not experiment.real_rankings:
        lacking.add("fused")
    for method in methods:
        if method.need in lacking:
            raise InputError(
                f"{method.name} reads {_NEEDS[method.need]}, which the experiment "
                f"{experiment.name} does not have. Leave it out."
            )


def given_name(model: str | BaseChatModel | None) -> str | None:
    """Return the name of a model that was given by name or open."""
    return model if isinstance(model, str) or model is None else model_name(model)


def own_arguments(model: str | BaseChatModel | None) -> Any:
    """Return the arguments of a model that was given open; None for one that the run opens."""
    if not isinstance(model, BaseChatModel):
        return None
    return json.loads(json.dumps(model.asdict(), default=str))


def paper_encoder() -> str:
    """Return OP-RAG's encoder, bge, if its weights are in the local cache, else minilm."""
    with needing("encoders", "experiments with dense retrieval need sentence-transformers"):
        from huggingface_hub import try_to_load_from_cache

    from briefcontext.knowledge.encoders.sentence_transformer import BGE_MODEL

    return "bge" if isinstance(try_to_load_from_cache(BGE_MODEL, "modules.json"), str) else "minilm"


def provenance(encoder_revision: str) -> dict[str, Any]:
    """Return the command of a run and the revision of the encoder."""
    return {"command": sys.argv, "encoder_revision": encoder_revision}


def versions() -> dict[str, str]:
    """Return the versions of Python and of the packages that results depend on."""
    result = {"python": python_version()}
    for name in _VERSIONED:
        with suppress(PackageNotFoundError):
            result[name] = version(name)
    return result
