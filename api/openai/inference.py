"""The routes that generate: completions and chat completions.

Knows what each takes and gives; how bodies are understood and replies worded is told elsewhere.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import cast

from flask import Response, request

from api.clients import is_generated, is_llama_stack
from api.joined import together
from api.openai import requests
from api.openai.bodies import ChatBody, CompletionBody
from api.openai.chat import ChatWriter
from api.openai.completion import CompletionWriter, Echo, Prompt
from api.openai.functions import FunctionWriter, as_tools
from api.openai.messages import text
from api.openai.models import served
from api.openai.reading import read
from api.openai.shape import shape
from api.openai.tools import demands_one
from api.settings import AppSettings
from api.stream import SSE, Framing, answer
from inference.backend import Backend
from inference.types import GenerationRequest

EVENTS = Framing(SSE.mimetype, SSE.encode, b"data: [DONE]\n\n")


@dataclass(frozen=True, slots=True)
class Inference:
    backend: Backend
    settings: AppSettings

    def complete(self) -> Response:
        body = read(CompletionBody)
        model = served(body.model, self.backend.info(), self.settings)
        asked = requests.completions(body, self.backend.info(), self.settings)
        form = shape(
            body,
            "cmpl",
            model,
            self.settings,
            prompts=len(asked),
            logprobs=body.logprobs,
            most=asked[0].max_tokens,
        )
        writer = CompletionWriter(form, self._echo(asked) if body.echo else None)
        stream = together(self.backend.generate, asked)
        return answer(stream, writer, events() if body.stream else None, len(asked) * form.answers)

    def chat(self) -> Response:
        body = as_tools(read(ChatBody))
        model = served(body.model, self.backend.info(), self.settings)
        asked = requests.chat(body, self.backend.info(), self.settings)
        form = shape(
            body,
            "chatcmpl",
            model,
            self.settings,
            logprobs=asked.logprobs if body.logprobs else None,
            most=asked.max_tokens,
            roles=not is_generated(request.headers),  # those join what the deltas of a stream say
        )
        kind = FunctionWriter if body.functions else ChatWriter
        writer = kind(form, echoed(body), demands_one(body))
        return answer(self.backend.generate(asked), writer, events() if body.stream else None, form.answers)

    def _echo(self, asked: list[GenerationRequest]) -> Echo:
        def spell(ids: Sequence[int]) -> str:
            return self.backend.detokenize(ids, special=asked[0].show_special)

        prompts = [cast(Prompt, each.prompt) for each in asked]
        return Echo(prompts, asked[0].truncate is not None, spell)


def echoed(body: ChatBody) -> str:
    """The last message, where the answer begins with it: one of the assistant's."""
    last = body.messages[-1]
    return text(last.content, "messages") if body.echo and last.role == "assistant" else ""


def events() -> Framing:
    """Llama Stack's clients take every event for JSON, so that theirs end without a word."""
    return SSE if is_llama_stack(request.headers) else EVENTS
