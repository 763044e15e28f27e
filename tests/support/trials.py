"""Small trials for tests that ask: one anchor a prompt, counted by the phantom's own word tokenizer."""

from __future__ import annotations

from bunny_probe.phantom import WordTokenizer, chat_tokens
from bunny_probe.records import (
    Anchor,
    Decoding,
    Expectation,
    Message,
    Probe,
    Recipe,
    Rendered,
    Trial,
    content_hash,
    to_json,
)

_TOKENIZER = WordTokenizer()


def probe(number: int, words: int = 20, *, family: str = "length") -> Probe:
    """A probe of its own, about `words` tokens long."""
    value = f"KX-{number:04d}"
    anchor = Anchor(f"town{number}", value, f"The access code for Town is {value}.", None, asked=True)
    text = f"{number} " + "quiet " * words + anchor.text
    length = chat_tokens(_TOKENIZER, [("user", text + "\n\nWhat is the access code for Town?")])
    return Probe(
        family,
        "anchor",
        Recipe(text, "\n\nWhat is the access code for Town?"),
        Expectation("anchor", (value,)),
        length,
        cluster=f"doc{number}",
        anchors=(anchor,),
    )


def render(item: Probe) -> Rendered:
    messages = (Message("user", item.recipe.head + item.recipe.tail),)
    tokens = chat_tokens(_TOKENIZER, [(m.role, m.content) for m in messages])
    digest = content_hash([to_json(m) for m in messages], length=64)
    return Rendered(messages, tokens, digest, _TOKENIZER.fingerprint)


def trials(count: int, *, repeats: int = 1, words: int = 20, max_tokens: int = 32) -> list[Trial]:
    decoding = Decoding(max_tokens=max_tokens)
    return [Trial(probe(n, words), decoding, r) for n in range(count) for r in range(repeats)]
