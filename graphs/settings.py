"""The graph's settings: its runtime context."""

import os
import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, Self, cast, get_args

from langgraph.runtime import get_runtime
from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    JsonValue,
    ModelWrapValidatorHandler,
    StringConstraints,
    ValidationError,
    field_validator,
    model_validator,
)

from briefcontext.chains.model.limits import CallBudget, CallLimits
from briefcontext.errors import InputError, did_you_mean, plain
from briefcontext.files import lone_surrogate
from briefcontext.knowledge.knowledge_base import DEMO
from briefcontext.knowledge.store.filters import Filters
from briefcontext.knowledge.study_type import StudyType
from briefcontext.retrievers.knowledge_base import SearchMethod
from briefcontext.retrievers.rankings import PREFLIGHT_IOU_THRESHOLD, PREFLIGHT_TOP_N

IOU = "iou"
"""The value of `preflight` for BriefContext's own check."""
CALIBRATED = "calibrated"
"""The value of `preflight` for the calibration of the knowledge base."""
MAX_TOP_K = 1024


def _as_list(given: object) -> object:
    return [] if given is None else [given] if isinstance(given, str) else given


_Year = Annotated[int, Field(ge=1000, le=9999)]
_Label = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1)]
_Labels = Annotated[Sequence[_Label], BeforeValidator(_as_list), AfterValidator(tuple)]
if TYPE_CHECKING:  # What is taken, where a pair is kept.
    _Years = tuple[int | None, int | None] | list[int] | str
else:
    _Years = tuple[_Year | None, _Year | None]


def _title(name: str, _: object) -> str:
    return name.replace("_", " ").capitalize().replace("Iou", "IoU")


def _as_text(given: object) -> object:
    return str(given) if isinstance(given, int) and not isinstance(given, bool) else given


Words = Annotated[str, BeforeValidator(_as_text)]
"""Text, for which a whole number is also accepted."""
_WordLists = Annotated[list[Words], BeforeValidator(_as_list)]


class AskedFilters(BaseModel):
    """Filters as somebody gives them along with a question."""

    model_config = ConfigDict(extra="forbid")

    years: Words | None = Field(
        default=None, description="Years of publication, both ends included: 2015-2020, 2015-, -2019 or 2021."
    )
    publication_types: _WordLists = Field(
        default=[],
        description="Any of these study types: " + ", ".join(get_args(StudyType)) + ". PubMed's publication types are "
        'understood, too: "Clinical Trial", "Meta-Analysis".',
    )
    journals: _WordLists = Field(default=[], description='Titles or abbreviations, any of them: "N Engl J Med".')
    mesh: _WordLists = Field(default=[], description='MeSH headings, any of them: "Asthma".')
    languages: _WordLists = Field(default=[], description="Codes of languages, any of them: eng, fre.")


class Settings(BaseModel):
    """How a question is answered. Every field has a default; without `context=` all defaults apply.

    Raises:
        InputError: an unknown setting, or a value out of its range.
    """

    model_config = ConfigDict(
        extra="forbid",
        frozen=True,
        field_title_generator=_title,
        json_schema_extra={"description": "How a question is answered. Every setting has a default."},
    )

    most_documents: ClassVar[int] = MAX_TOP_K
    """The most documents that are taken along with a question."""
    listed_in: ClassVar[Mapping[str, str]] = {}
    """The variables in which a server's owner lists what settings may name."""
    file_links: ClassVar[bool] = True
    """Whether citations link to local files. Servers use settings without."""

    route: Literal["auto", "map_reduce", "vanilla", "order_preserving"] = Field(
        default="auto", description="The way to read: decided by the preflight check (auto), or forced."
    )
    fallback: Literal["vanilla", "order_preserving"] = Field(
        default="vanilla",
        description="How to read when the rankings agree: in rank order, or in the order of the source.",
    )
    top_k: int = Field(default=16, ge=1, le=MAX_TOP_K, description="How many documents are retrieved.")
    partition_size: int = Field(default=4, ge=1, le=MAX_TOP_K, description="How many documents one extraction reads.")
    preflight_top_n: int = Field(
        default=PREFLIGHT_TOP_N,
        ge=1,
        le=MAX_TOP_K,
        description="How many documents at the top of the two rankings the preflight check compares.",
    )
    iou_threshold: float = Field(
        default=PREFLIGHT_IOU_THRESHOLD,
        ge=0,
        le=1,
        description="The rankings agree when their overlap (intersection over union) is above this. Where BM25 has no "
        "top n (few documents hold a term of the question, or scores tie), it cannot tell, and the question is mapped.",
    )
    preflight: str = Field(
        default=IOU,
        min_length=1,
        description="How the route is decided: by the overlap of the two rankings ('iou'), by the "
        "calibration in the knowledge base's folder ('calibrated'), or by a calibration file.",
    )
    knowledge_base: str = Field(
        default=DEMO,
        min_length=1,
        description="Folder of a knowledge base, 'demo' for the bundled one, or 'pubmed:' for live PubMed.",
    )
    document: str | None = Field(
        default=None, description="One long file to answer from, in place of the knowledge base."
    )
    retrieval: SearchMethod = Field(
        default="hybrid",
        description="How documents are found: by vectors, by BM25, or by both, fused; live PubMed has vectors only. "
        "The preflight check compares the dense ranking with BM25's; without a dense one, the documents are mapped.",
    )
    cross_encoder: str | None = Field(
        default=None,
        description="Put the documents found in order by a cross-encoder: 'medcpt', or a checkpoint's folder.",
    )
    years: _Years | None = Field(
        default=None,
        description="Only publications of these years: from and to, both included, either may be null. Text is taken, "
        "too: 2015-2020, 2015-, -2019 or 2021.",
    )
    publication_types: _Labels = Field(
        default=(),
        description="Only publications of one of these types: 'randomized trial' and what else is shown beside an "
        "article, or publication types as PubMed writes them.",
    )
    journals: _Labels = Field(
        default=(), description="Only publications in one of these journals, by title or MEDLINE abbreviation."
    )
    mesh: _Labels = Field(default=(), description="Only publications under one of these MeSH headings.")
    languages: _Labels = Field(default=(), description="Only publications in one of these languages: eng or en.")
    include_retracted: bool = Field(
        default=False, description="Use retracted articles, too. By default they are left out and counted."
    )
    model: str | None = Field(
        default=None,
        description="Chat model as provider:model. Without one, the closest passages are shown.",
    )
    extract_model: str | None = Field(
        default=None, description="Another chat model for the extractions, as provider:model."
    )
    model_arguments: dict[str, JsonValue] | None = Field(
        default=None,
        description="Arguments of the models' LangChain classes, by name: temperature, top_p. Also "
        "max_output_tokens, and cache: an SQLite file that keeps replies.",
    )
    prompts: str | None = Field(
        default=None, description="Folder of prompts that the model is given in place of the bundled ones."
    )
    max_input_tokens: int | None = Field(
        default=None, ge=1024, description="The model's input window in tokens. By default what the model states."
    )
    max_concurrent_calls: int = Field(
        default=32, ge=1, le=4096, description="Model calls in flight at once in this process, over all questions."
    )
    requests_per_minute: float | None = Field(default=None, gt=0, description="Model calls started in a minute.")
    model_timeout: float = Field(default=120.0, gt=0, description="Seconds for one model call.")
    max_retries: int = Field(default=4, ge=0, le=20, description="How often a model call that failed is tried again.")
    verify: bool = Field(
        default=True,
        description="Compare each cited sentence of a free answer with the passages that it cites, by a model.",
    )
    verify_model: str | None = Field(
        default=None,
        min_length=1,
        description="Model for the verification: a chat model as provider:model, or cross-encoder:NAME for an "
        "entailment model. By default the model that answers.",
    )

    @property
    def filters(self) -> Filters:
        """What every document has to fulfil."""
        first, last = cast("tuple[int | None, int | None]", self.years or (None, None))
        labels = map(tuple, (self.publication_types, self.journals, self.mesh, self.languages))
        return Filters(first, last, *labels)

    def budget(self) -> CallBudget:
        """Return an unused budget of one node's model calls."""
        return CallBudget(
            timeout=self.model_timeout,
            max_retries=self.max_retries,
            limits=CallLimits(self.max_concurrent_calls, self.requests_per_minute),
            max_input_tokens=self.max_input_tokens,
        )

    def resolved(self) -> Self:
        """The settings with the places of what they name. Here names are places; a served graph's are not."""
        return self

    def without_file_links(self) -> "Settings":
        """Return the settings of a server, whose answers do not link to its files."""
        served: type[Settings] = type("ServerSettings", (type(self),), {"file_links": False})
        return served(**self.model_dump(exclude_unset=True))

    def narrowed(self, asked: AskedFilters | None) -> Self:
        """The settings with the filters that were asked for in place of their own; the others stay.

        Raises:
            InputError: a filter that cannot be used.
        """
        given = asked.model_dump(exclude_defaults=True) if asked else {}
        return type(self)(**{**self.model_dump(), **given}) if given else self

    @field_validator("*", mode="before")
    @classmethod
    def _from_path(cls, given: object) -> object:
        # As ./demo, a path never means one of the names that a setting takes, too.
        if isinstance(given, os.PathLike):
            given = os.path.join(os.curdir, os.path.expanduser(os.fsdecode(given)))
        if isinstance(given, str) and lone_surrogate(given):
            raise ValueError("it is not UTF-8; rename the file")
        return given

    @field_validator("years", mode="before")
    @classmethod
    def _from_text(cls, given: object) -> object:
        if isinstance(given, int):
            given = str(given)
        if not isinstance(given, str):
            return given
        first, dash, last = (part.strip() for part in given.partition("-"))
        if not re.fullmatch(r"[1-9][0-9]{3}(-[1-9][0-9]{3})?", "-".join(filter(None, (first, last)))):
            raise ValueError("write 2015-2020, 2015-, -2019 or 2021")
        return first or None, (last if dash else first) or None

    @field_validator("years")
    @classmethod
    def _in_order(cls, years: tuple[int | None, int | None] | None) -> tuple[int | None, int | None] | None:
        first, last = years or (None, None)
        if first and last and first > last:
            raise ValueError("it should be from the earlier year to the later one")
        return years

    @model_validator(mode="wrap")
    @classmethod
    def _explain(cls, data: Any, handler: ModelWrapValidatorHandler[Self]) -> Self:
        if isinstance(data, dict) and data.get("preflight", IOU) != IOU:
            # Calibrations are fitted to the dense ranking.
            data = {"retrieval": "dense", **data}
        try:
            return handler(data)
        except ValidationError as error:
            raise InputError(_problems(error, cls)) from error


def current_settings(defaults: type[Settings]) -> Settings:
    """Return the settings of the run that this is called in; without `context=`, or outside of a run, the defaults.

    As a part of another graph, this one is handed that graph's context: if it is no `Settings`, the defaults hold.
    """
    context: object = getattr(get_runtime(Settings), "context", None)
    if isinstance(context, str | int | list | tuple | type):
        raise InputError(f"context = {context!r:.100} is not settings. Pass context=Settings(…) or a dict.")
    return context if isinstance(context, Settings) else defaults()


def _problems(error: ValidationError, settings: type[Settings]) -> str:
    problems = []
    for problem in error.errors():
        name = ".".join(map(str, problem["loc"])) or "settings"
        if problem["type"] == "extra_forbidden":
            nearest = did_you_mean(name, settings.model_fields)
            arguments = " Arguments of the model belong in model_arguments."
            problems.append(f"there is no setting {name!r}.{nearest}{arguments}")
            continue
        message = plain(problem["msg"])
        if variable := settings.listed_in.get(name):
            message = message.replace("it should be None", "none is allowed")
            message += f"; the server's owner lists in {variable} the names that are allowed"
        problems.append(f"{name} = {problem['input']!r:.100}: {message}")
    message = f"Settings cannot be used: {'; '.join(problems)}"
    return message if message.endswith((".", "?")) else f"{message}."
