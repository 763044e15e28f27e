"""A model's chat template, rendered so that nothing a client wrote can become a control token.

Markers written in a message (a document that quotes `<|im_end|>`) are swapped for placeholders before the
template runs, so the template can trim, split and compare as it likes; the rendered text is then cut into
segments, and those that held a placeholder are encoded as text alone. A conversation without such markers is
one segment, encoded whole, exactly as `transformers` does.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import jinja2
import jinja2.ext
import jinja2.nodes
import jinja2.parser
import jinja2.sandbox

from bunny_engine.server.errors import bad_request

__all__ = ["ChatTemplate", "Segment"]

# Unicode noncharacters: no text means anything by them. One that the messages do not hold is the placeholder.
_NONCHARACTERS = tuple(map(chr, range(0xFDD0, 0xFDF0))) + tuple(
    chr(plane << 16 | low) for plane in range(1, 17) for low in (0xFFFE, 0xFFFF)
)


@dataclass(frozen=True, slots=True)
class Segment:
    text: str
    control: bool  # whether markers in `text` are the template's own


class TemplateRefusal(Exception):
    """The template itself refused the messages."""


class _Generation(jinja2.ext.Extension):
    """`{% generation %}` marks the assistant's part for training; serving just renders what it holds."""

    tags = {"generation"}  # noqa: RUF012 - jinja2's own declaration

    def parse(self, parser: jinja2.parser.Parser) -> jinja2.nodes.Node | list[jinja2.nodes.Node]:
        next(parser.stream)
        return list(parser.parse_statements(("name:endgeneration",), drop_needle=True))


def _refuse(message: str) -> None:
    raise TemplateRefusal(message)


def _to_json(value: Any, ensure_ascii: bool = False, **options: Any) -> str:
    # jinja2's own filter escapes HTML, which templates for models do not expect
    return json.dumps(value, ensure_ascii=ensure_ascii, **options)


class ChatTemplate:
    """`source`: Jinja, or None where the model has no template. `variables`: bos_token and its like."""

    def __init__(
        self,
        source: str | None,
        markers: Iterable[str],
        variables: Mapping[str, Any],
        now: Callable[[], datetime],
    ) -> None:
        longest_first = sorted((marker for marker in markers if marker), key=len, reverse=True)
        self._markers = re.compile("|".join(map(re.escape, longest_first)) or r"(?!)")
        self._variables = dict(variables)
        self._now = now
        self._template: jinja2.Template | None = None
        self.fault = "this model has no chat template" if source is None else None
        if source is not None:
            try:
                self._template = self._environment().from_string(source)
            except jinja2.TemplateError as fault:
                self.fault = f"this model's chat template cannot be read ({fault.message})"

    def has_marker(self, text: str) -> bool:
        return self._markers.search(text) is not None

    def render(
        self,
        messages: Sequence[Mapping[str, str]],
        *,
        add_generation_prompt: bool = True,
        continue_final_message: bool = False,
        variables: Mapping[str, Any] | None = None,
    ) -> list[Segment]:
        """Segments whose texts joined are the prompt. Raises ApiError (400) where the template refuses.

        `continue_final_message`: leave the last message open, to be gone on with. `variables`: the client's
        own, such as `enable_thinking`.
        """
        if self._template is None:
            raise bad_request(
                f"Chat is not possible: {self.fault}. Use /v1/completions.", "messages", "no_chat_template"
            )
        written = json.dumps([messages, variables or {}], ensure_ascii=False)
        free = [char for char in _NONCHARACTERS if char not in written]
        if len(free) < 2:
            raise bad_request("The messages hold every Unicode noncharacter: that is not text.", "messages")
        sign, end = free[:2]
        quoted: list[str] = []
        shielded = self._shield([dict(message) for message in messages], sign, quoted)
        extra = self._shield(dict(variables or {}), sign, quoted)
        if continue_final_message:
            shielded[-1]["content"] += end
        try:
            rendered = self._template.render(
                {"tools": None, "documents": None, **self._variables, **extra},
                messages=shielded,
                add_generation_prompt=add_generation_prompt,
                strftime_now=lambda form: self._now().strftime(form),
                raise_exception=_refuse,
            )
        except TemplateRefusal as refusal:
            raise bad_request(
                f"The model's chat template refuses these messages: {refusal}", "messages"
            ) from None
        except Exception as fault:  # a template is a program: whatever it raises, these messages raised it
            kind = type(fault).__name__
            raise bad_request(
                f"The model's chat template cannot render these messages ({kind}).", "messages"
            ) from None
        if continue_final_message:
            rendered, kept, _ = rendered.rpartition(end)
            if not kept:
                raise bad_request(
                    "The model's chat template drops the end of the last message: it cannot be continued.",
                    "continue_final_message",
                )
        if not quoted:
            return [Segment(rendered, control=True)]
        return self._cut(rendered, sign, quoted)

    def _shield(self, value: Any, sign: str, quoted: list[str]) -> Any:
        if isinstance(value, str):

            def hide(match: re.Match[str]) -> str:
                quoted.append(match[0])
                return f"{sign}{len(quoted) - 1}{sign}"

            return self._markers.sub(hide, value)
        if isinstance(value, dict):
            return {key: self._shield(item, sign, quoted) for key, item in value.items()}
        if isinstance(value, list):
            return [self._shield(item, sign, quoted) for item in value]
        return value

    def _cut(self, rendered: str, sign: str, quoted: Sequence[str]) -> list[Segment]:
        hidden = re.compile(f"{sign}([0-9]+){sign}")
        segments: list[Segment] = []
        template_part = ""
        start = 0
        for match in [*self._markers.finditer(rendered), None]:
            run = rendered[start : match.start() if match else None]
            if sign in run:
                literal = hidden.sub(lambda hit: quoted[int(hit[1])], run)
                segments += [Segment(template_part, control=True), Segment(literal, control=False)]
                template_part = ""
            else:
                template_part += run
            if match:
                template_part += match[0]
                start = match.end()
        segments.append(Segment(template_part, control=True))
        return [segment for segment in segments if segment.text]

    def _environment(self) -> jinja2.Environment:
        environment = jinja2.sandbox.ImmutableSandboxedEnvironment(
            trim_blocks=True,
            lstrip_blocks=True,
            extensions=["jinja2.ext.loopcontrols", _Generation],
        )
        environment.filters["tojson"] = _to_json
        return environment
