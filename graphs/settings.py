"""The graph's settings: its runtime context."""

import os
import re
from collections.abc import Sequence
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

from briefcontext.chains.model.usage import CallBudget, CallLimits
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


_Count = Annotated[int, Field(ge=1, le=MAX_TOP_K)]
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
    """Filters that a client sends with a question."""

    model_config = ConfigDict(extra="forbid")

    years: Words | None = Field(
        default=None, description="Years, both included: 2015-2020, 2015-, -2019 or 2021."
    )
    publication_types: _WordLists = Field(
        default=[],
        description=f"Any of these study types: {', '.join(get_args(StudyType))}; or PubMed's "
        "publication types, such as Meta-Analysis.",
    )
    journals: _WordLists = Field(default=[], description="Any of these titles or abbreviations.")
    mesh: _WordLists = Field(default=[], description='Any of these MeSH headings: "Asthma".')
    languages: _WordLists = Field(default=[], description="Any of these codes: eng, fre.")


class Settings(BaseModel):
    """How a question is answered. Raises InputError for a wrong name or value."""

    model_config = ConfigDict(
        extra="forbid",
        frozen=True,
        field_title_generator=_title,
        json_schema_extra={
            "description": "How a question is answered. Every setting has a default."
        },
    )

    most_documents: ClassVar[int] = MAX_TOP_K
    """Limit of documents that come with a question."""
    file_links: ClassVar[bool] = True
    """Whether citations link to local files. Servers disable it."""

    route: Literal["auto", "map_reduce", "vanilla", "order_preserving"] = Field(
        default="auto", description="Route of every question; auto lets the preflight decide."
    )
    fallback: Literal["vanilla", "order_preserving"] = Field(
        default="vanilla",
        description="Route when the rankings agree: in rank order, or in the order of the source.",
    )
    top_k: _Count = Field(default=16, description="Number of documents to retrieve.")
    partition_size: _Count = Field(default=4, description="Number of documents per extraction.")
    preflight_top_n: _Count = Field(
        default=PREFLIGHT_TOP_N,
        description="Number of documents at the top of each ranking that the preflight compares.",
    )
    iou_threshold: float = Field(
        default=PREFLIGHT_IOU_THRESHOLD,
        ge=0,
        le=1,
        description="Intersection over union above which the rankings agree. If BM25 has no "
        "clear top n, the route is map_reduce.",
    )
    preflight: str = Field(
        default=IOU,
        min_length=1,
        description="Preflight check: 'iou' for the overlap of the rankings, 'calibrated' for the "
        "calibration in the knowledge base's folder, or a calibration file.",
    )
    knowledge_base: str = Field(
        default=DEMO,
        min_length=1,
        description="Folder of a knowledge base, 'demo', or 'pubmed:' for live PubMed.",
    )
    document: str | None = Field(
        default=None, description="One long file to answer from, instead of a knowledge base."
    )
    retrieval: SearchMethod = Field(
        default="hybrid",
        description="Search by vectors, by BM25, or by both, fused. Live PubMed has only dense.",
    )
    cross_encoder: str | None = Field(
        default=None, description="Cross-encoder that reranks: 'medcpt' or a folder."
    )
    years: _Years | None = Field(
        default=None,
        description="Years of publication, both included: 2015-2020, 2015-, -2019, 2021, or a pair "
        "in which either may be null.",
    )
    publication_types: _Labels = Field(
        default=(),
        description="Any of these study types ('randomized trial') or PubMed publication types.",
    )
    journals: _Labels = Field(
        default=(), description="Any of these journals, by title or MEDLINE abbreviation."
    )
    mesh: _Labels = Field(default=(), description="Any of these MeSH headings.")
    languages: _Labels = Field(default=(), description="Any of these languages: eng or en.")
    include_retracted: bool = Field(
        default=False, description="Use retracted articles, which are otherwise left out."
    )
    model: str | None = Field(
        default=None, description="Chat model as provider:model. Without one, passages are shown."
    )
    extract_model: str | None = Field(
        default=None, description="Another chat model for the extractions, as provider:model."
    )
    model_arguments: dict[str, JsonValue] | None = Field(
        default=None,
        description="Arguments of the models' LangChain classes, such as temperature. Also "
        "max_output_tokens, and cache: an SQLite file that keeps replies.",
    )
    prompts: str | None = Field(
        default=None, description="Folder of prompts to use instead of the bundled ones."
    )
    max_input_tokens: int | None = Field(
        default=None, ge=1024, description="Input window in tokens. Default: the model's own."
    )
    max_concurrent_calls: int = Field(
        default=32, ge=1, le=4096, description="Concurrent model calls of this process."
    )
    requests_per_minute: float | None = Field(
        default=None, gt=0, description="Model calls started per minute."
    )
    model_timeout: float = Field(default=120.0, gt=0, description="Seconds for one model call.")
    max_retries: int = Field(default=4, ge=0, le=20, description="Retries of a failed model call.")
    verify: bool = Field(
        default=True,
        description="Compare each cited sentence of a free answer with its passages, by a model.",
    )
    verify_model: str | None = Field(
        default=None,
        min_length=1,
        description="Model for the verification: provider:model, or cross-encoder:NAME for an "
        "entailment model. Default: the model that answers.",
    )

    @property
    def filters(self) -> Filters:
        """The filters by year and label."""
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
        """Return the settings with names replaced by paths. Only servers have names."""
        return self

    def without_file_links(self) -> "Settings":
        """Return settings of a server, whose answers do not link to local files."""
        served: type[Settings] = type("ServerSettings", (type(self),), {"file_links": False})
        return served(**self.model_dump(exclude_unset=True))

    def narrowed(self, asked: AskedFilters | None) -> Self:
        """Return the settings with a client's filters in place of these."""
        filters = asked.model_dump(exclude_defaults=True) if asked else {}
        return type(self)(**{**self.model_dump(exclude_unset=True), **filters})

    @field_validator("*", mode="before")
    @classmethod
    def _from_path(cls, given: object) -> object:
        # Written as ./demo, a path cannot be confused with a name that the setting accepts.
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
        years = [year for year in (first, last) if year]
        if not years or not all(re.fullmatch("[1-9][0-9]{3}", year) for year in years):
            raise ValueError("write 2015-2020, 2015-, -2019 or 2021")
        return first or None, (last if dash else first) or None

    @field_validator("years")
    @classmethod
    def _in_order(cls, years: Any) -> Any:
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
    """Return the settings of the current run.

    Without `context=`, or with the context of a surrounding graph, they are the defaults.
    """
    context: object = getattr(get_runtime(Settings), "context", None)
    if isinstance(context, str | int | list | tuple | type):
        raise InputError(
            f"context = {context!r:.100} is not settings. Pass context=Settings(…) or a dict."
        )
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
        problems.append(f"{name} = {problem['input']!r:.100}: {message}")
    message = f"Settings cannot be used: {'; '.join(problems)}"
    return message if message.endswith((".", "?")) else f"{message}."
