"""From an OpenAI body to the server's own GenerationRequests, one for each prompt.

What a client can get wrong in a body is found here, before anything is generated.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, cast

from api.openai.bodies import ChatBody, CompletionBody, GeneratingBody
from api.openai.errors import Refused, WrongBody
from api.openai.formats import constraint, structured
from api.openai.messages import messages
from api.openai.rules import asked, check
from api.openai.sampling import sampling
from api.openai.tools import demands_one, tool_choice, tools
from api.settings import AppSettings
from inference.types import GenerationRequest, ModelInfo, Template

COMPLETION_TOKENS = 16  # of a completion that does not say; OpenAI's default, and vLLM's
MAX_PROMPTS = 2048  # in one request, as OpenAI takes for embeddings
TOOLS_OR_FORM = "You can only either use constraints for structured outputs or tools, not both."
MIXED = "must be text, token ids, or a list of either"


def completions(body: CompletionBody, info: ModelInfo, settings: AppSettings) -> list[GenerationRequest]:
    check(body)
    most = COMPLETION_TOKENS if body.max_tokens is None else body.max_tokens
    request = _shaped(body, body.logprobs, most, info, settings)
    if body.echo and body.logprobs is not None:
        request = replace(request, prompt_logprobs=max(body.logprobs, body.prompt_logprobs or 0))
    several = prompts(body.prompt or "", "prompt", settings.max_client_batch)
    return [replace(request, prompt=prompt) for prompt in several]


def chat(
    body: ChatBody, info: ModelInfo, settings: AppSettings, field: str = "messages"
) -> GenerationRequest:
    """`field`: what the client calls the conversation."""
    check(body)
    most = settings.max_tokens if asked(body) is None else asked(body)
    alternatives = (body.top_logprobs or 0) if body.logprobs else None
    if demands_one(body) and structured(body):
        raise WrongBody(TOOLS_OR_FORM, "structured_outputs")
    return replace(
        _shaped(body, alternatives, most, info, settings),
        prompt=messages(body.messages, field),
        template=template(body.add_generation_prompt, body.continue_final_message, _arguments(body)),
        tools=tools(body.tools),
        tool_choice=tool_choice(body),
        parallel_calls=body.parallel_tool_calls is not False,
    )


def prompts(
    given: str | Sequence[int | str | list[int]], field: str, most: int = MAX_PROMPTS
) -> list[str | list[int]]:
    """Each prompt by itself: one text or list of ids, or many; at least one. Raises WrongBody."""
    if isinstance(given, str):
        return [given]
    if all(isinstance(each, int) for each in given):
        return [cast(list[int], list(given))]
    if any(isinstance(each, int) for each in given):
        raise WrongBody(f"{field} {MIXED}: it mixes ids with other prompts", field)
    if not all(given):
        raise WrongBody(f"{field} {MIXED}: one of them is empty", field)
    if len(given) > most:
        raise WrongBody(f"{field} may hold at most {most} prompts, got {len(given)}", field)
    return cast(list[str | list[int]], list(given))


def template(opens: bool | None, continues: bool | None, arguments: Mapping[str, Any] | None) -> Template:
    """A new message is opened, unless the last one is continued or the body says otherwise."""
    return Template(not continues if opens is None else opens, bool(continues), arguments or {})


def _arguments(body: ChatBody) -> dict[str, Any]:
    told = {"reasoning_effort": body.reasoning_effort, "documents": body.documents}
    given = {name: value for name, value in told.items() if value is not None}
    return given | (body.chat_template_kwargs or {})


def _shaped(
    body: GeneratingBody, logprobs: int | None, most: int | None, info: ModelInfo, settings: AppSettings
) -> GenerationRequest:
    """Everything but the prompt. The best of several answers are told by their logprobs."""
    answers = body.best_of or body.n or 1
    chooses = answers > (body.n or 1)
    if body.prompt_logprobs is not None and not settings.prefill_logprobs:
        raise Refused("prompt_logprobs are turned off on this server", "prompt_logprobs")
    return GenerationRequest(
        prompt="",
        sampling=sampling(body, settings.temperature),
        special=body.add_special_tokens,
        truncate=truncate(body.truncate_prompt_tokens, most, info),
        max_tokens=most,
        fits=True,
        min_tokens=body.min_tokens or 0,
        stop=(body.stop,) if isinstance(body.stop, str) else tuple(body.stop or ()),
        keep_stop=bool(body.include_stop_str_in_output),
        stop_tokens=tuple(body.stop_token_ids or ()),
        ignore_eos=bool(body.ignore_eos),
        bad_words=tuple(body.bad_words or ()),
        show_special=body.skip_special_tokens is False,
        constraint=constraint(body, settings),
        n=answers,
        logprobs=0 if chooses and logprobs is None else logprobs,
        prompt_logprobs=body.prompt_logprobs,
        deadline=settings.deadline_s,
    )


def truncate(asked: int | None, most: int | None, info: ModelInfo) -> int | None:
    """-1: as many as leave room for the answer."""
    return max(1, info.context - max(1, most or 0)) if asked == -1 else asked
