"""Build a knowledge base from PDF, Word, HTML and Markdown files, and ask it.

Needs the extra `documents`.
"""

from pathlib import Path
from tempfile import TemporaryDirectory

from briefcontext import Settings, build_graph, build_knowledge_base
from briefcontext.knowledge import open_sources

papers = Path(__file__).parent / "papers"
questions = [
    "Is metformin safe in kidney disease?",
    "How much elemental iron does a tablet of ferrous fumarate contain?",
    "Did zorvalin lower mortality?",
]

with TemporaryDirectory() as folder:
    report = build_knowledge_base(open_sources(papers), f"{folder}/kb", encoder="e5")
    print(f"{report.passages} passages from {len(report.sources)} files")

    graph = build_graph()
    settings = Settings(knowledge_base=f"{folder}/kb")
    for question in questions:
        answer = graph.invoke({"question": question}, context=settings)["answer"]
        print(f"\n{question}\n{answer['text']}")
        for reference in answer["references"]:
            print(f"[{reference['number']}] {reference['title']}")
