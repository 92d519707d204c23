"""/v1/completions and /v1/chat/completions: parse the body, submit the requests, respond with a writer."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import cast

from flask import Response, request

from api.body import json_body
from api.client_detection import is_llama_stack, is_text_generation
from api.hooks.concurrency_limit import acquire_permit
from api.merged_stream import submit_all
from api.openai.chat_writer import ChatWriter, FunctionWriter
from api.openai.completion_writer import CompletionWriter, Prompt, PromptEcho
from api.openai.prefix_events import prefix_log
from api.openai.protocol.chat import ChatCompletionRequest
from api.openai.protocol.completion import CompletionRequest
from api.openai.repeated_answers import RepeatedAnswers
from api.openai.reply import ReplyOptions, reply_options
from api.openai.requests.messages import functions_to_tools, parse_content, sent_tools
from api.openai.requests.model_choice import resolve_model
from api.openai.requests.parse import chat_request, completion_requests, read_request
from api.openai.requests.tool_choice import forces_named_tool
from api.openai.stored_chats import check_stored_chat, record_chat
from api.response import SSE, Framing, Writer, respond
from inference.backend import Backend
from inference.content import content_text
from inference.models import Models
from inference.types import GenerationRequest
from settings.groups import ServerSettings

EVENT_FRAMING = Framing(SSE.mimetype, SSE.encode, b"data: [DONE]\n\n")


@dataclass(frozen=True, slots=True)
class CompletionRoutes:
    models: Models
    settings: ServerSettings

    def complete(self) -> Response:
        body = read_request(CompletionRequest)
        served = resolve_model(body, self.models)
        generation_requests = completion_requests(body, served.card.info, self.settings)
        options = replace(
            reply_options(body, "cmpl", served.card.name, self.settings),
            num_prompts=len(generation_requests),
            logprobs=body.logprobs,
            max_tokens=generation_requests[0].max_tokens,
        )
        prompt_echo = _prompt_echo(generation_requests, served.backend) if body.echo else None
        num_generated = generation_requests[0].n
        writer = _with_repeats(CompletionWriter(options, prompt_echo), options.best_of // num_generated)
        acquire_permit()
        for generation_request in generation_requests:
            prefix_log().add(generation_request)
        stream = submit_all(served.generate, generation_requests)
        return respond(
            stream,
            writer,
            framing_for_client() if body.stream else None,
            len(generation_requests) * num_generated,
        )

    def chat(self) -> Response:
        body = read_request(ChatCompletionRequest)
        if body.functions or body.function_call is not None:
            body = functions_to_tools(body)
        served = resolve_model(body, self.models)
        generation_request = chat_request(
            body, served.card.info, self.settings, sent_tools=sent_tools(json_body.read())
        )
        options = replace(
            reply_options(body, "chatcmpl", served.card.name, self.settings),
            logprobs=generation_request.logprobs if body.logprobs else None,
            max_tokens=generation_request.max_tokens,
            role_in_every_delta=is_text_generation(request.headers, body.model),
            include_reasoning=body.include_reasoning is not False,
            stream_reasoning=body.stream_reasoning is not False,
        )
        make_writer = partial(_chat_writer, body, options, options.best_of // generation_request.n)
        if body.store:
            check_stored_chat(body)
        acquire_permit()
        prefix_log().add(generation_request)
        stream = served.generate(generation_request)
        if body.store:
            stream = record_chat(stream, body, generation_request.n, make_writer)
        return respond(
            stream,
            make_writer(),
            framing_for_client() if body.stream else None,
            generation_request.n,
        )


def _with_repeats(writer: Writer, times: int) -> Writer:
    """A writer that shows each generated answer `times` times."""
    return RepeatedAnswers(writer, times) if times > 1 else writer


def _chat_writer(body: ChatCompletionRequest, options: ReplyOptions, times: int) -> Writer:
    writer_class = FunctionWriter if body.functions else ChatWriter
    forces_tool = body.tool_choice is not None and forces_named_tool(body)
    return _with_repeats(writer_class(options, _message_echo(body), forces_tool), times)


def _message_echo(body: ChatCompletionRequest) -> str:
    """The text of the message that the answer continues, if `echo` asks for it."""
    last = body.messages[-1]
    shows_echo = body.echo and last.role == "assistant"
    return content_text(parse_content(last.content, "messages")) if shows_echo else ""


def _prompt_echo(generation_requests: list[GenerationRequest], backend: Backend) -> PromptEcho:
    def decode(ids: Sequence[int]) -> str:
        return backend.detokenize(ids, show_special=generation_requests[0].show_special)

    prompts = [cast(Prompt, each.prompt) for each in generation_requests]
    return PromptEcho(prompts, generation_requests[0].truncate is not None, decode)


def framing_for_client() -> Framing:
    """Server-sent events, without [DONE] for Llama Stack's clients, which parse every event as JSON."""
    return SSE if is_llama_stack(request.headers) else EVENT_FRAMING
