"""Ask 20 questions at once and write the answers to a file."""

import asyncio
import json
from pathlib import Path

from briefcontext import Settings, graph
from briefcontext.graphs.state import Input

topics = [
    *("asthma", "gout", "migraine", "epilepsy", "depression", "hypothyroidism", "osteoporosis"),
    *("psoriasis", "eczema", "hypertension", "influenza", "cystitis", "hepatitis C", "sepsis"),
    *("heart failure", "hyperkalaemia", "anaphylaxis", "coeliac disease", "COPD", "pre-eclampsia"),
]
settings = Settings(max_concurrent_calls=8)


async def main() -> None:
    """Ask the questions side by side."""
    inputs: list[Input] = [
        {"question": f"What is the first treatment of {topic}?"} for topic in topics
    ]
    results = await graph.abatch(inputs, context=settings)
    answers = [result["answer"] for result in results]
    output = Path("answers.jsonl")
    output.write_text("".join(json.dumps(answer) + "\n" for answer in answers), encoding="utf-8")
    abstained = sum(answer["abstained"] for answer in answers)
    print(f"{len(answers)} answers in {output}, {abstained} without evidence")


asyncio.run(main())
