"""The call for an answer in words, made again where the reply is none."""

from collections.abc import Sequence

from langchain_core.messages import AIMessage, BaseMessage

from briefcontext.chains.model.call import Model, Reply, Request
from briefcontext.chains.model.call_budget import CallBudget
from briefcontext.chains.parsing.answer_parser import why_no_answer
from briefcontext.chains.question import Question
from briefcontext.errors import ModelCallError

__all__ = ["ask_for_answer"]


async def ask_for_answer(
    model: Model, question: Question, stage: str, messages: Sequence[BaseMessage], budget: CallBudget
) -> tuple[Reply, list[str]]:
    """Return the model's answer, streamed, and what there is to say of how it came.

    A reply that repeats the prompt, or has no sentence, is not shown: the model is told so, and asked once more.

    Raises:
        ModelCallError: a call failed for good, or the second reply is no answer either.
    """
    instruction = messages[0].text
    reply = await model.ask(Request(stage, messages, streamed=True), budget)
    if (reason := why_no_answer(reply.text, question, instruction)) is None:
        return reply, []
    repair = model.prompts.render("again", question["text"], {}, error=reason)
    request = Request(stage, [*messages, AIMessage(reply.text), *repair], streamed=True, again=True)
    second = await model.ask(request, budget)
    if (still := why_no_answer(second.text, question, instruction)) is not None:
        raise ModelCallError(f"{model.name} gave no answer, twice; of its last reply: {still}. Use a larger model.")
    return second, [f"The model's first reply was no answer ({reason}) and was asked for again."]
