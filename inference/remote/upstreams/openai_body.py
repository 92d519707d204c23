"""The body of a request to an OpenAI-compatible server, for chat completions and for completions."""

from functools import reduce
from typing import Any

from inference.content import content_text
from inference.errors import BadRequest
from inference.remote.upstreams.flavours import Flavour
from inference.text.tool_prompt import tool_schema
from inference.types import Constraint, GenerationRequest, Message, TemplateOptions

TOOL_CHOICES = ("auto", "none", "required")
OLDEST_EFFORTS = ("low", "medium", "high")


def chat_body(request: GenerationRequest, model: str, flavour: Flavour) -> dict[str, Any]:
    """The body of a chat completion."""
    assert not isinstance(request.prompt, str), "the caller sends text to completions"
    body = common_body(request, model, flavour)
    body["messages"] = [
        message_json(message, flavour) for message in request.prompt if isinstance(message, Message)
    ]
    if request.max_tokens is not None:
        body[flavour.max_tokens_field] = request.max_tokens
    if request.logprobs is not None:
        body |= {"logprobs": True, "top_logprobs": max(request.logprobs, flavour.min_logprobs)}
    if request.callable_tools:
        body |= tool_fields(request, flavour)
    if not request.separate_reasoning:
        body |= flavour.unseparated
    template = request.template
    if template.continue_final_message or not template.add_generation_prompt:
        body["continue_final_message"] = template.continue_final_message
        body["add_generation_prompt"] = template.add_generation_prompt
    return body | reasoning_effort_fields(template, flavour) | template_fields(template, flavour)


def reasoning_effort_fields(template: TemplateOptions, flavour: Flavour) -> dict[str, Any]:
    """OpenAI's field, which gpt-oss on a vLLM reads in place of variables of the chat template.

    Servers with such variables get it with the values that their first releases take.
    """
    effort = template.reasoning_effort
    if effort is None or (flavour.has_template_variables and effort not in OLDEST_EFFORTS):
        return {}
    return {"reasoning_effort": effort}


def template_fields(template: TemplateOptions, flavour: Flavour) -> dict[str, Any]:
    if not (flavour.has_template_variables and template.variables):
        return {}
    return {flavour.spellings["arguments"]: template.variables}


def completion_body(
    request: GenerationRequest, model: str, flavour: Flavour, default_max_tokens: int
) -> dict[str, Any]:
    """The body of a completion. Their default of 16 tokens is never meant: max_tokens is always sent."""
    body = common_body(request, model, flavour)
    prompt = request.prompt
    body["prompt"] = prompt if isinstance(prompt, str) else list(prompt)
    body["max_tokens"] = default_max_tokens if request.max_tokens is None else request.max_tokens
    if request.logprobs is not None:
        body["logprobs"] = max(request.logprobs, flavour.min_logprobs)
    return body


def common_body(request: GenerationRequest, model: str, flavour: Flavour) -> dict[str, Any]:
    """The fields that both have. Streamed, so that limits and cancelling work; not with prompt_logprobs."""
    body: dict[str, Any] = {"model": model, "stream": True, "stream_options": {"include_usage": True}}
    sampling = request.sampling
    if sampling.greedy:
        body |= {"temperature": 0, "top_p": 1}
    else:
        body |= {"temperature": sampling.temperature, "top_p": sampling.top_p}
    for name in ("presence_penalty", "frequency_penalty"):
        if value := getattr(sampling, name):
            body[name] = value
    if sampling.seed is not None:
        body["seed"] = sampling.seed
    if sampling.logit_bias:
        body["logit_bias"] = {str(id): bias for id, bias in sampling.logit_bias.items()}
    if request.n > 1:
        body["n"] = num_answers(request, flavour)
    if request.stop:
        body["stop"] = list(request.stop)
    if request.constraint:
        body |= constraint_fields(request.constraint, flavour)
    body |= extension_fields(request, flavour)
    if request.prompt_logprobs is None:
        return body
    del body["stream_options"]
    return body | {"stream": False, "prompt_logprobs": request.prompt_logprobs}


def extension_fields(request: GenerationRequest, flavour: Flavour) -> dict[str, Any]:
    """The fields of options beyond OpenAI's that the request sets."""
    owners = (request, request.sampling)
    values = {
        name: getattr(owner, name) for owner in owners for name in flavour.spellings if hasattr(owner, name)
    }
    if request.sampling.greedy:
        values |= {"top_k": 0, "min_p": 0.0}
    neutral = (None, 0, 0.0, "", (), False)
    body = {flavour.spellings[name]: value for name, value in values.items() if value not in neutral}
    for name in ("repetition_penalty", "typical_p"):
        if values.get(name) == 1.0:
            del body[flavour.spellings[name]]
    if "allowed_token_ids" in body:
        body["allowed_token_ids"] = sorted(body["allowed_token_ids"])
    if flavour.has_prompt_ids:
        body["return_token_ids"] = True
        if request.show_special:
            body["skip_special_tokens"] = False
    return body


def num_answers(request: GenerationRequest, flavour: Flavour) -> int:
    """The number of answers. Raises BadRequest if they are too many."""
    if flavour.max_answers is not None and request.n > flavour.max_answers:
        raise BadRequest("n", f"may be at most {flavour.max_answers} for {flavour.server}", request.n)
    return request.n


def constraint_fields(constraint: Constraint, flavour: Flavour) -> dict[str, Any]:
    """Raises BadRequest for a kind of constraint that the server does not have."""
    if constraint.kind == "json":
        return {"response_format": {"type": "json_object"}}
    if constraint.kind == "json_schema":
        schema = {"name": "answer", "schema": constraint.spec, "strict": True}
        return {"response_format": {"type": "json_schema", "json_schema": schema}}
    if path := flavour.constraints.get(constraint.kind):
        value: Any = list(constraint.spec) if constraint.kind == "choice" else constraint.spec
        return reduce(lambda inner, name: {name: inner}, reversed(path), value)
    rule = f"of the kind {constraint.kind} is not supported by {flavour.server}: use a JSON schema"
    raise BadRequest(constraint.field_name, rule)


def message_json(message: Message, flavour: Flavour) -> dict[str, Any]:
    """A message as OpenAI has it, with its reasoning for others. Contents with several parts keep them."""
    content: Any = message.content
    if not isinstance(content, str):
        content = [{"type": "text", "text": each.text} for each in content]
    fields: dict[str, Any] = {"role": message.role, "content": content}
    if message.name:
        fields["name"] = message.name
    if message.tool_calls:
        fields["tool_calls"] = [
            {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.arguments}}
            for call in message.tool_calls
        ]
        fields["content"] = content_text(message.content) or None
    if message.tool_call_id:
        fields["tool_call_id"] = message.tool_call_id
    if message.reasoning and flavour.takes_reasoning:
        fields |= {"reasoning_content": message.reasoning, "reasoning": message.reasoning}
    return fields


def tool_fields(request: GenerationRequest, flavour: Flavour) -> dict[str, Any]:
    """The tools, and which of them may or must be called."""
    tools, choice = request.callable_tools, request.tool_choice
    if choice not in TOOL_CHOICES and not flavour.names_tool:
        tools, choice = tuple(tool for tool in tools if tool.name == choice), "required"
    fields = {"tools": list(map(tool_schema, tools)), "tool_choice": tool_choice_json(choice)}
    return fields if request.parallel_calls else fields | {"parallel_tool_calls": False}


def tool_choice_json(tool_choice: str) -> Any:
    """A word of TOOL_CHOICES is itself; another one names a tool."""
    if tool_choice in TOOL_CHOICES:
        return tool_choice
    return {"type": "function", "function": {"name": tool_choice}}
