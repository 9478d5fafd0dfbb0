"""Use BriefContext as a node of another graph, with a checkpointer and streaming."""

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import END, START, StateGraph
from typing_extensions import TypedDict

from briefcontext import Answer, graph


class Case(TypedDict):
    """The input of the outer graph."""

    patient: str
    question: str


class Letter(Case):
    """The state of the outer graph. It shares `question` and `answer` with BriefContext."""

    answer: Answer
    letter: str


def write_letter(state: Letter) -> dict[str, str]:
    """Write a letter that names the sources of the answer."""
    sources = ", ".join(reference["title"] for reference in state["answer"]["references"])
    return {"letter": f"Dear {state['patient']},\n{state['answer']['text']}\nSources: {sources}"}


builder = StateGraph(Letter, input_schema=Case)
builder.add_node("literature", graph)
builder.add_node("write_letter", write_letter)
builder.add_edge(START, "literature")
builder.add_edge("literature", "write_letter")
builder.add_edge("write_letter", END)
letters = builder.compile(checkpointer=InMemorySaver())

config: RunnableConfig = {"configurable": {"thread_id": "letter-1"}}
case: Case = {"patient": "Ms A", "question": "Which drug is first choice for type 2 diabetes?"}
for part in letters.stream(case, config, stream_mode="custom", subgraphs=True, version="v2"):
    if part["type"] == "custom":
        print("event:", part["data"]["event"])

print(letters.get_state(config).values["letter"])
