"""The settings of a run."""

from dataclasses import dataclass, field
from importlib.metadata import PackageNotFoundError, version
from platform import python_version
from typing import TYPE_CHECKING, Literal

from langchain_core.language_models import BaseChatModel

from briefcontext.chains.model.chat_model import model_name
from briefcontext.evaluation.experiments.corpus import Corpus
from briefcontext.evaluation.runs.progress import Prices
from briefcontext.graphs.settings import Settings

if TYPE_CHECKING:
    from briefcontext.knowledge.encoders import Encoder

__all__ = ["RunSettings", "encoder_name", "given_name", "versions"]

_VERSIONED = ("briefcontext", "langchain", "langchain-core", "langchain-openai", "langgraph", "scipy", "statsmodels")


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
    document_encoder: "str | Encoder" = "minilm"
    """Encoder of the chunks of long documents."""
    exact_chunks: bool = False
    """Whether their chunks end at 128 tokens exactly, as OP-RAG's do, and not at the nearest sentence."""
    methods: tuple[str, ...] = ()
    ks: tuple[int, ...] = ()
    seed: int = 0
    limit: int | None = None
    per_class: int | None = None
    temperature: float | None = 0.0
    """None for the provider's own default."""
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


def given_name(model: str | BaseChatModel | None) -> str | None:
    """Return the name by which a model was given."""
    return model if isinstance(model, str) or model is None else model_name(model)


def encoder_name(encoder: "str | Encoder") -> str:
    """Return the name of an encoder."""
    return encoder if isinstance(encoder, str) else encoder.name


def versions() -> dict[str, str]:
    """Return the versions of Python and of the packages that results depend on."""
    found = {"python": python_version()}
    for name in _VERSIONED:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found
