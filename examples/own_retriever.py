"""Answer with your own retriever and your own chat model. Needs OPENAI_API_KEY."""

from langchain.chat_models import init_chat_model
from langchain_core.callbacks import CallbackManagerForRetrieverRun
from langchain_core.documents import Document
from langchain_core.retrievers import BaseRetriever

from briefcontext import Settings, build_graph

NOTES = {
    "potassium": "Spironolactone raises potassium. Check it one week after the drug is started.",
    "cough": "ACE inhibitors cause a dry cough in some people. Sartans rarely do.",
    "ankles": "Amlodipine causes swollen ankles, more often at 10 mg than at 5 mg.",
}


class NotesRetriever(BaseRetriever):
    """Rank the notes by the number of words that they share with the query."""

    def _get_relevant_documents(
        self, query: str, *, run_manager: CallbackManagerForRetrieverRun
    ) -> list[Document]:
        words = set(query.lower().strip("?").split())
        documents = [
            Document(id=name, page_content=text, metadata={"title": name.capitalize()})
            for name, text in NOTES.items()
        ]
        return sorted(
            documents,
            key=lambda document: len(words & set(document.page_content.lower().split())),
            reverse=True,
        )


graph = build_graph(
    model=init_chat_model("openai:gpt-4o-mini"),
    retriever=NotesRetriever(),
)
result = graph.invoke(
    {"question": "Which blood pressure drug causes swollen ankles?"},
    context=Settings(top_k=3),
)

print(result["answer"]["text"])
for citation in result["answer"]["citations"]:
    print(f"[{citation['key']}] {citation['title']}: {citation['quote']}")
