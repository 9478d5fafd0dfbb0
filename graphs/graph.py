"""The BriefContext graph: retrieve, check the rankings, and read in one call or by map and reduce.

START -> retrieve -> preflight -+- agree ----> vanilla | order_preserving ------+-> verify -> END
                                +- disagree -> map_fanout => extract -> reduce -+
                                +- nothing retrieved -> abstain -> END
"""

from collections.abc import Hashable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, cast

from langchain_core.language_models import BaseChatModel
from langchain_core.retrievers import RetrieverLike
from langchain_core.runnables import RunnableConfig
from langchain_core.vectorstores import VectorStore
from langgraph.graph import END, START, StateGraph
from langgraph.graph.state import CompiledStateGraph
from langgraph.types import All, Checkpointer, Command, Durability, Send

from briefcontext.chains.reader import Reader
from briefcontext.errors import InputError
from briefcontext.graphs.nodes import Nodes, async_node
from briefcontext.graphs.resources import RESOURCES, Resources, as_reader
from briefcontext.graphs.settings import MAX_TOP_K, Settings
from briefcontext.graphs.state import Input, Output, Partition, State
from briefcontext.graphs.steps import branches
from briefcontext.retrievers.ranking_retriever import as_ranking_retriever

if TYPE_CHECKING:

    class AnswerGraph(CompiledStateGraph[State, Any, Input, Output]):
        """The types of the compiled graph's input, settings and result, for type checkers."""

        def invoke(  # type: ignore[override]
            self,
            input: Input | Command[Any] | None,
            config: RunnableConfig | None = None,
            *,
            context: Settings | Mapping[str, Any] | None = None,
            interrupt_before: All | Sequence[str] | None = None,
            interrupt_after: All | Sequence[str] | None = None,
            durability: Durability | None = None,
        ) -> Output: ...

        async def ainvoke(  # type: ignore[override]
            self,
            input: Input | Command[Any] | None,
            config: RunnableConfig | None = None,
            *,
            context: Settings | Mapping[str, Any] | None = None,
            interrupt_before: All | Sequence[str] | None = None,
            interrupt_after: All | Sequence[str] | None = None,
            durability: Durability | None = None,
        ) -> Output: ...


def take_route(state: State) -> str:
    """Follow the route that the preflight node decided."""
    return state["route"]


def send_partitions(state: State) -> list[Send]:
    """Start one extraction for each partition, all at once."""
    return [Send("extract", branch) for branch in branches(state["asked"], state["partitions"])]


def build_graph(
    model: str | BaseChatModel | None = None,
    *,
    reader: Reader | None = None,
    retriever: RetrieverLike | VectorStore | None = None,
    checkpointer: Checkpointer = None,
    settings: type[Settings] = Settings,
    name: str = "BriefContext",
    resources: Resources | None = None,
) -> "AnswerGraph":
    """Build the graph. Nothing is opened before it runs.

    `invoke({"question": …}, context=Settings(…))` returns `{"answer": Answer}`. Multiple choice
    takes `options`, letter to text. `context` also takes a dict of the settings.

    Args:
        model: Chat model that answers, or its name as `provider:model`. By default the setting
            `model` of each run. A graph with a model refuses the settings of models.
        reader: `LLMReader` or another `Reader`, in place of a model.
        retriever: LangChain retriever, best document first, or vector store. By default the
            knowledge base or document that the settings name. A graph with a retriever refuses
            the settings of knowledge bases.
        checkpointer: Store of threads. `invoke(None, config, context=…)` with the same settings
            resumes a run that failed or was killed, without repeating its extractions.
        settings: Schema of `context`: `Settings` or a subclass with other defaults.
        name: Name of the graph in traces.
        resources: Opened knowledge bases and models, to share with another graph. By default the
            graph opens its own.

    Raises:
        InputError: An argument cannot be used.
        ModelSetupError, MissingExtraError: The model cannot be opened.
    """
    if not (isinstance(settings, type) and issubclass(settings, Settings)):
        raise InputError(
            "settings takes a class: Settings or a subclass. Pass values with the question, as "
            "context=Settings(…)."
        )
    if model is not None and reader is not None:
        raise InputError("model and reader are both given. Pass one of them.")
    reader = as_reader(reader if model is None else model)
    ranking = None if retriever is None else as_ranking_retriever(retriever)
    nodes = Nodes(reader, ranking, settings, resources or Resources())
    builder = StateGraph(State, context_schema=settings, input_schema=Input, output_schema=Output)
    builder.add_node("retrieve", async_node(nodes.retrieve), input_schema=State)
    builder.add_node("preflight", nodes.preflight)
    builder.add_node("map_fanout", async_node(nodes.map_fanout), input_schema=State)
    builder.add_node("extract", async_node(nodes.extract), input_schema=Partition)
    builder.add_node("reduce", async_node(nodes.reduce), input_schema=State)
    builder.add_node("vanilla", async_node(nodes.answer), input_schema=State)
    builder.add_node("order_preserving", async_node(nodes.answer), input_schema=State)
    builder.add_node("verify", async_node(nodes.verify), input_schema=State)
    builder.add_node("abstain", nodes.abstain)

    builder.add_edge(START, "retrieve")
    builder.add_edge("retrieve", "preflight")
    routes: dict[Hashable, str] = {"map_reduce": "map_fanout", "vanilla": "vanilla"}
    routes |= {name: name for name in ("order_preserving", "abstain")}
    builder.add_conditional_edges("preflight", take_route, routes)
    builder.add_conditional_edges("map_fanout", send_partitions, ["extract"])
    builder.add_edge("extract", "reduce")
    for answering in ("reduce", "vanilla", "order_preserving"):
        builder.add_edge(answering, "verify")
    builder.add_edge("verify", END)
    builder.add_edge("abstain", END)
    graph = builder.compile(checkpointer=checkpointer, name=name)
    # By default, `invoke` runs no more extractions at once than the default thread pool has
    # threads (six on two cores). A limit below the number of partitions delays checkpoints.
    return cast("AnswerGraph", graph.with_config(max_concurrency=MAX_TOP_K))


graph = build_graph(resources=RESOURCES)
