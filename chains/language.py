"""Languages of questions and documents, told by their small words."""

import re
from collections.abc import Sequence

from langchain_core.documents import Document

__all__ = ["language_note", "language_of"]

SMALL_WORDS = {
    "English": "the of is are in and for with does what which how to by an",
    "German": "der die das den dem ist sind und bei mit welche welcher welches wie für nicht ein eine gegen zur",
    "French": "le la les est sont des du au quel quelle pour avec dans une chez et comment",
    "Spanish": "el la los las es son del qué para con una cuál cómo por",
    "Italian": "il gli è sono della delle dei di che quale una nella con per più",
    "Portuguese": "os é são da das dos que para uma qual em não na pelo com",
    "Dutch": "de het een zijn van en bij met welke wat voor niet door",
}
_WORDS = {language: frozenset(words.split()) for language, words in SMALL_WORDS.items()}
LEAST = 2
"""Small words that tell a language: one alone may be a name, or another language's word."""
READ = 5
"""Documents of which the language is told."""


def language_of(text: str) -> str | None:
    """Return the language of which a text has the most small words; None where they do not tell."""
    words = re.findall(r"\w+", text.lower())
    counts = sorted(((sum(word in small for word in words), name) for name, small in _WORDS.items()), reverse=True)
    (most, language), (next_most, _) = counts[:2]
    return language if most >= LEAST and most > next_most else None


def language_note(question: str, documents: Sequence[Document]) -> str | None:
    """Say that a question is in another language than the documents that were found for it; None where it is not."""
    asked = language_of(question)
    found = language_of("\n".join(document.page_content for document in documents[:READ]))
    if asked is None or found is None or asked == found:
        return None
    return (
        f"The question seems to be in {asked}, and the documents that were found are in {found}: what was found may be "
        f"far from it. Ask in {found}."
    )
