"""The BriefContext graph: retrieve, check the rankings, and read in one call or by map and reduce.

START -> retrieve -> preflight -+- rankings agree ------> vanilla | order_preserving -+-> verify -> END
                                +- rankings disagree ---> map_fanout =Send=> extract (x M) -> reduce -+
                                +- nothing retrieved ---> abstain -> END
"""

from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import aclosing
from typing import Any

from langchain_core.language_models import BaseChatModel
from langchain_core.retrievers import RetrieverLike
from langchain_core.runnables import Runnable, RunnableConfig
from langchain_core.vectorstores import VectorStore
from langgraph.errors import EmptyInputError
from langgraph.graph import END, START, StateGraph
from langgraph.graph.state import CompiledStateGraph
from langgraph.types import Checkpointer, Command, Send

from briefcontext.chains.llm_reader import LLMReader
from briefcontext.chains.reader import Reader
from briefcontext.errors import InputError
from briefcontext.graphs.nodes import Nodes
from briefcontext.graphs.settings import MAX_TOP_K, Settings
from briefcontext.graphs.state import Input, Output, Partition, State
from briefcontext.retrievers.ranking_retriever import as_ranking_retriever

NO_RUN = (
    "There is no run to go on with: ask a question, or name the thread of a run that was stopped, "
    'config={"configurable": {"thread_id": …}}, on a graph with its checkpointer.'
)


class _Graph(CompiledStateGraph[State, Any, Input, Output]):
    def stream(self, input: Any, config: RunnableConfig | None = None, **options: Any) -> Any:
        """Do as LangGraph does, which waits for events in one of the threads, and hangs when it is the only one."""
        _check(input, config, options)
        mode = options.get("stream_mode")
        modes = {mode} if isinstance(mode, str) else {*(mode or ())}
        if (
            config
            and config.get("max_concurrency") == 1
            and (options.get("subgraphs") or modes & {"custom", "messages"})
        ):
            config = {**config, "max_concurrency": 2}
        return _parts(super().stream(input, config, **options))

    def astream(self, input: Any, config: RunnableConfig | None = None, **options: Any) -> Any:
        """Do as LangGraph does, with what was checked."""
        _check(input, config, options)
        return _aparts(super().astream(input, config, **options))


def _parts(parts: Iterator[Any]) -> Iterator[Any]:
    try:
        yield from parts
    except EmptyInputError as error:
        raise InputError(NO_RUN) from error


async def _aparts(parts: Any) -> AsyncIterator[Any]:
    try:
        async with aclosing(parts):
            async for part in parts:
                yield part
    except EmptyInputError as error:
        raise InputError(NO_RUN) from error


def _check(input: object, config: Any, options: Mapping[str, Any]) -> None:
    """Refuse what LangGraph would not understand, or answer with other settings than were given."""
    if not (isinstance(input, Mapping | Command | None) or hasattr(input, "question")):
        raise InputError(
            f'A question goes in as {{"question": "Which drug is first choice for type 2 diabetes?"}}, '
            f"and not as {type(input).__name__}."
        )
    wrong = isinstance(config, Settings) or "settings" in options
    if wrong or not isinstance(options.get("context"), Mapping | Settings | None):
        raise InputError("Settings go in by name: context=Settings(…), or context= with a dict of the same fields.")
    configurable = (config or {}).get("configurable") or {}
    # As a part of another graph, this one is handed that graph's state and configurable, too.
    within = any(name.startswith("__pregel") for name in configurable)
    known = Input.__annotations__
    if isinstance(input, Mapping) and not within and (unknown := input.keys() - known.keys()):
        raise InputError(f"There is no input {', '.join(sorted(map(repr, unknown)))} (there are {', '.join(known)}).")
    if not (within or options.get("context")) and (unheard := sorted(configurable.keys() & Settings.model_fields)):
        raise InputError(f"{', '.join(unheard)}: settings are not configurable. Give them as context=Settings(…).")
    if input is None and not configurable.get("thread_id"):
        raise InputError(NO_RUN)


def take_route(state: State) -> str:
    """Follow the route that the preflight node decided."""
    return state["route"]


def send_partitions(state: State) -> list[Send]:
    """Start one extraction for each partition, all at once."""
    return [
        Send(
            "extract",
            Partition(
                index=index,
                partitions=len(state["partitions"]),
                asked=state["asked"],
                started=state["started"],
                settings=state["settings"],
                documents=documents,
            ),
        )
        for index, documents in enumerate(state["partitions"])
    ]


def build_graph(
    *,
    reader: Reader | BaseChatModel | str | None = None,
    retriever: RetrieverLike | VectorStore | None = None,
    checkpointer: Checkpointer = None,
    settings: type[Settings] = Settings,
    name: str = "BriefContext",
) -> CompiledStateGraph[State, Any, Input, Output]:
    """Build the graph; it opens nothing until it is run.

    `invoke({"question": …})` returns `{"answer": Answer}`. Multiple choice takes `options`, letter to text.
    Settings go in as `context=Settings(…)` or as a dict of the same fields.

    Args:
        reader: answers from documents; a chat model or its name (`openai:gpt-4o-mini`) is read with
            `LLMReader`. By default the settings name it; the settings of models are refused where there is one.
        retriever: any LangChain retriever, best document first, or vector store. By default the settings name its
            knowledge base.
        checkpointer: where a thread's state is kept. A run that failed or was killed goes on with
            `invoke(None, config, context=…)`, given the same settings again; extractions that are kept are not
            made again. A run of which every partition failed has kept nothing: ask the question again. The
            rounds in which evidence is condensed are made again unless the setting `model_cache` keeps their
            calls. Extractions are kept as they finish, with LangGraph's `durability="async"` (its default, which
            saves in the background) and `"sync"`; `"exit"` keeps nothing of a killed run. A `max_concurrency` in
            the config would hold extractions back from being kept: bound model calls by the setting
            `max_concurrent_calls` instead.
        settings: the schema of `context=`: Settings, or a subclass, whose defaults are those of a run without any.
        name: what traces call the graph.

    Raises:
        InputError: the reader or the retriever is none, or `settings` is no class of settings.
        ModelSetupError, MissingExtraError: the model named cannot be opened.
    """
    if not (isinstance(settings, type) and issubclass(settings, Settings)):
        raise InputError(
            "settings takes a class, Settings or a subclass. Values go in with the question: context=Settings(…)."
        )
    if isinstance(reader, Runnable) and not isinstance(reader, Reader | BaseChatModel):
        raise InputError(
            f"{type(reader).__name__} is not a chat model alone: give the model itself, and what was bound to it as "
            "arguments of its own, LLMReader('provider:model', arguments={…}). Fallbacks are not taken."
        )
    if isinstance(reader, type) or not isinstance(reader, Reader | BaseChatModel | str | None):
        raise InputError(
            f"{reader!r:.100} is no reader: give a chat model, its name as provider:model, an LLMReader, or an object "
            "with all that briefcontext.chains.reader.Reader asks for."
        )
    nodes = Nodes(
        LLMReader(reader) if isinstance(reader, str | BaseChatModel) else reader,
        None if retriever is None else as_ranking_retriever(retriever),
        settings,
    )
    builder = StateGraph(State, context_schema=settings, input_schema=Input, output_schema=Output)
    builder.add_node("retrieve", nodes.retrieve, input_schema=State)
    builder.add_node("preflight", nodes.preflight)
    builder.add_node("map_fanout", nodes.map_fanout)
    builder.add_node("extract", nodes.extract, input_schema=Partition)
    builder.add_node("reduce", nodes.reduce, input_schema=State)
    builder.add_node("vanilla", nodes.answer, input_schema=State)
    builder.add_node("order_preserving", nodes.answer, input_schema=State)
    builder.add_node("verify", nodes.verify, input_schema=State)
    builder.add_node("abstain", nodes.abstain)

    builder.add_edge(START, "retrieve")
    builder.add_edge("retrieve", "preflight")
    builder.add_conditional_edges(
        "preflight",
        take_route,
        {
            "map_reduce": "map_fanout",
            "vanilla": "vanilla",
            "order_preserving": "order_preserving",
            "abstain": "abstain",
        },
    )
    builder.add_conditional_edges("map_fanout", send_partitions, ["extract"])
    builder.add_edge("extract", "reduce")
    for answering in ("reduce", "vanilla", "order_preserving"):
        builder.add_edge(answering, "verify")
    for last in ("verify", "abstain"):
        builder.add_edge(last, END)
    compiled = builder.compile(checkpointer=checkpointer, name=name)
    # Without this, `invoke` runs as many extractions at once as Python's default thread pool has threads:
    # six on two cores. A limit below the number of partitions would also hold back checkpoints.
    return _Graph(**vars(compiled)).with_config(max_concurrency=MAX_TOP_K)


graph = build_graph()
