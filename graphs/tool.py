"""The graph as a tool for agents, and the short text of an answer for their models."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from langchain_core.runnables import RunnableConfig
from langchain_core.tools import StructuredTool, ToolException
from langgraph.pregel.protocol import PregelProtocol
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from briefcontext.chains.answer import Answer
from briefcontext.chains.plain_text import MAX_NOTES, answer_text
from briefcontext.errors import InputError, ModelCallError, problems
from briefcontext.graphs.settings import AskedFilters, Settings, current_settings

NAME = "ask_medical_literature"
DESCRIPTION = (
    "Answers a medical question from a knowledge base of medical literature, with numbered "
    "sources, or reports that there is no answer. Ask one self-contained question a call; "
    "independent questions can be asked in parallel. When you use an answer, keep its sources' "
    "ids and links, and do not add facts to it."
)


class Asked(BaseModel):
    """The arguments of the tool."""

    model_config = ConfigDict(extra="forbid")

    question: str = Field(
        description="One self-contained medical question in natural language: name the condition, "
        "the drug or the test, and do not refer to the conversation."
    )
    options: dict[str, str] | None = Field(
        default=None,
        description='Only for multiple choice: letter to text, such as {"A": "yes", "B": "no"}.',
    )
    filters: AskedFilters | None = Field(
        default=None,
        description="Only when the user wants certain publications: what they must be.",
    )


def briefcontext_tool(
    graph: PregelProtocol[Any, Any, Any, Any] | None = None,
    *,
    settings: Settings | Mapping[str, Any] | None = None,
    name: str = NAME,
    description: str = DESCRIPTION,
) -> StructuredTool:
    """Return the graph as a LangChain tool.

    The model gets a short text with numbered sources (`answer_text`); the tool message's `artifact`
    is the whole `Answer`. Wrong questions and failed model calls become tool errors that the model
    reads. Other errors are raised.

    Args:
        graph: Made by `build_graph`, or a `RemoteGraph` of it; by default the ready-made one.
        settings: Settings of every question; the model's filters replace theirs. By default the
            agent's own `context` if it is `Settings`, else the graph's defaults.
        name: Name of the tool.
        description: Description of the tool for the model.

    Raises:
        InputError: The settings cannot be used.
    """
    if graph is None:
        from briefcontext.graphs.graph import graph as ready_made

        graph = ready_made
    asked_graph: Any = graph
    # A `RemoteGraph` does not say what its own are.
    schema: type[Settings] = getattr(graph, "context_schema", None) or Settings
    given = dict(settings) if isinstance(settings, Mapping) else settings
    context = given if isinstance(given, Settings | None) else schema.model_validate(given)

    def asked(
        question: str, options: dict[str, str] | None = None, filters: AskedFilters | None = None
    ) -> dict[str, Any]:
        chosen = context
        if filters is not None:
            chosen = (context or current_settings(schema)).narrowed(filters)
        return {"input": {"question": question, "options": options}, "context": chosen}

    def ask(question: str, *, config: RunnableConfig, **others: Any) -> tuple[str, Answer]:
        with _tool_errors():
            return _content(asked_graph.invoke(config=config, **asked(question, **others)))

    async def aask(question: str, *, config: RunnableConfig, **others: Any) -> tuple[str, Answer]:
        with _tool_errors():
            return _content(await asked_graph.ainvoke(config=config, **asked(question, **others)))

    return StructuredTool.from_function(
        ask,
        aask,
        name=name,
        description=description,
        args_schema=Asked,
        response_format="content_and_artifact",
        handle_tool_error=True,
        handle_validation_error=problems_of,
    )


@contextmanager
def _tool_errors() -> Iterator[None]:
    try:
        yield
    except (InputError, ModelCallError) as error:
        raise ToolException(str(error)) from error


def _content(result: Mapping[str, Any]) -> tuple[str, Answer]:
    answer: Answer = result["answer"]
    return answer_text(answer, max_notes=MAX_NOTES), answer


def problems_of(error: ValidationError | Any) -> str:
    """Return the message to a model on arguments that do not fit the schema."""
    return f"The arguments cannot be used: {problems(error)}. Call the tool again with others."
