"""Follow-ups: a question that leans on earlier ones becomes a question of its own."""

from collections.abc import Sequence

from briefcontext.chains.model.call import Model, Request
from briefcontext.chains.model.call_budget import CallBudget
from briefcontext.chains.question import Question, check_question
from briefcontext.errors import InputError, ModelCallError

__all__ = ["check_earlier", "rewrite_follow_up"]

MOST_EARLIER = 8
"""Questions that a follow-up may lean on."""


def check_earlier(earlier: object) -> list[str]:
    """Return the earlier questions, the last one last; none where none are given.

    Raises:
        InputError: they are no list of questions, or too many.
    """
    if earlier is None:
        return []
    if not isinstance(earlier, list) or len(earlier) > MOST_EARLIER:
        raise InputError(f"Earlier questions must be a list of at most {MOST_EARLIER} texts.")
    return [check_question(question)["text"] for question in earlier]


async def rewrite_follow_up(model: Model, question: Question, earlier: Sequence[str], budget: CallBudget) -> Question:
    """Return the question that a follow-up means, in the model's words; its options stay.

    Raises:
        ModelCallError: the call failed for good, or the model wrote no question.
    """
    listed = "\n".join(f"- {' '.join(each.split())}" for each in earlier)
    messages = model.prompts.render("follow_up", question["text"], {}, earlier=listed)
    reply = await model.ask(Request("follow_up", messages, tags=("nostream",)), budget)
    lines = [line.removeprefix("Question:").strip(' \t*"“”') for line in reply.text.splitlines()]
    written = next((line for line in lines if any(sign.isalpha() for sign in line)), "")
    if reply.cut or not written:
        raise ModelCallError(f"{model.name} did not rewrite the follow-up as a question. Ask a whole question.")
    return check_question(written, question["options"])
