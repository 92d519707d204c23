"""The options of a request that an upstream supports: others are refused by name, or dropped by a setting."""

from collections.abc import Iterator, Sequence
from dataclasses import fields, replace
from typing import Any

from inference.errors import BadRequest
from inference.sampling import Sampling
from inference.types import GenerationRequest, TemplateOptions

# Options that every upstream meets, or that only say how this server treats the request.
ALWAYS = frozenset(
    {
        "prompt",
        "sampling",
        "template",
        "n",
        "deadline",
        "max_tokens",
        "reject_if_too_long",
        "stop",
        "stop_at_token_end",
        "tool_format",
        "separate_reasoning",
        "greedy",
        "temperature",
        "logprobs_are_optional",
        "processed_logprobs",
        "adapter_number",
        "add_generation_prompt",
        "warper_order",
        "allowed_tools",
    }
)
# option: the one that it is about, without which it has no effect
ABOUT = {"include_stop_str_in_output": "stop", "tool_choice": "tools", "parallel_calls": "tools"}
NAMES = {"arguments": "chat_template_kwargs", "truncate": "truncate_prompt_tokens"}  # as clients spell them


def set_options(request: GenerationRequest) -> Iterator[tuple[str, Any]]:
    """(name, value) of every option that is not at its default."""
    pairs: tuple[tuple[Any, Any], ...] = (
        (request, GenerationRequest("")),
        (request.sampling, Sampling()),
        (request.template, TemplateOptions()),
    )
    for owner, default in pairs:
        for field in fields(owner):
            value = getattr(owner, field.name)
            if value != getattr(default, field.name):
                yield field.name, value


def keep_supported(
    request: GenerationRequest, supported: frozenset[str], drop: frozenset[str], server: str
) -> GenerationRequest:
    """The request with the supported options only. Raises BadRequest for another one, unless it is in `drop`.

    server: the upstream in messages
    """
    dropped = []
    for name, _ in set_options(request):
        if name in ALWAYS or name in supported or (name in ABOUT and not getattr(request, ABOUT[name])):
            continue
        shown_name = name_for_clients(request, name)
        is_optional = name == "logprobs" and request.logprobs_are_optional
        if not is_optional and shown_name not in drop and name not in drop:
            raise BadRequest(shown_name, f"is not supported by {server}: leave it out")
        dropped.append(name)
    return without(request, dropped) if dropped else request


def name_for_clients(request: GenerationRequest, name: str) -> str:
    """The option as the client spells it."""
    if name == "constraint" and request.constraint:
        return request.constraint.field_name
    return NAMES.get(name, name)


def without(request: GenerationRequest, names: Sequence[str]) -> GenerationRequest:
    """The request with the defaults of these options."""
    return replace(
        request,
        sampling=replace(request.sampling, **defaults_of(Sampling(), names)),
        template=replace(request.template, **defaults_of(TemplateOptions(), names)),
        **defaults_of(GenerationRequest(""), names),
    )


def defaults_of(default: object, names: Sequence[str]) -> dict[str, Any]:
    return {name: getattr(default, name) for name in names if hasattr(default, name)}
