"""Bad requests, and the statuses and bodies of vLLM's errors, word for word."""

from typing import Any

import pytest
from flask.testing import FlaskClient

from inference.errors import BadRequest, MaxTokensTooLarge, Overloaded, ServerError, TooLong, Unavailable
from tests.api.openai.app_requests import CHATS, COMPLETIONS, RESPONSES, USER, WEATHER, body_for, refusal
from tests.fakes.fake_backend import FakeBackend, say

NAMED = {"type": "function", "function": {"name": "other"}}
IMAGE = {"type": "image_url", "image_url": {"url": "data:image/png;base64,aa"}}
TEXT_ONLY = "messages[0].content[1] is of type 'image_url', and the served model reads text only"
ONE_KIND = "You can only use one kind of constraints for structured outputs ('json', 'regex' or 'choice')."
MAX_TOKENS_TOO_LARGE = (
    "'max_tokens' or 'max_completion_tokens' is too large: 100. This model's maximum context length is 128 "
    "tokens and your request has 60 input tokens (100 > 128 - 60)."
)
UNREAD = (
    "This model's maximum context length is 128 tokens. However, your request has 9000 input characters. "
    "Please reduce the length of the input messages."
)
TOO_LONG = (
    "This model's maximum context length is 128 tokens. However, your request has 200 input tokens. Please "
    "reduce the length of the input messages."
)


@pytest.mark.parametrize("path", [COMPLETIONS, CHATS])
@pytest.mark.parametrize("prefix", ["", "/v1/openai"])
@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"n": 0}, "n must be at least 1, got 0."),
        ({"temperature": -1.0}, "temperature must be non-negative, got -1.0."),
        ({"top_p": 0.0}, "top_p must be in (0, 1], got 0.0."),
        ({"top_p": 1.5}, "top_p must be in (0, 1], got 1.5."),
        ({"top_k": -5}, "top_k must be 0 (disable), or at least 1, got -5."),
        ({"min_p": 2}, "min_p must be in [0, 1], got 2."),
        ({"presence_penalty": 9}, "presence_penalty must be in [-2, 2], got 9."),
        ({"frequency_penalty": -3}, "frequency_penalty must be in [-2, 2], got -3."),
        ({"repetition_penalty": 0}, "repetition_penalty must be greater than zero, got 0."),
        ({"max_tokens": 0}, "max_tokens must be at least 1, got 0."),
        (
            {"max_tokens": 4, "min_tokens": 50},
            "min_tokens must be less than or equal to max_tokens=4, got 50.",
        ),
        ({"min_tokens": -1}, "min_tokens must be greater than or equal to 0, got -1."),
        ({"stop": ""}, "stop cannot contain an empty string."),
        ({"stop": ["a", ""]}, "stop cannot contain an empty string."),
        ({"n": 65}, "n must be at most 64, got 65."),
        ({"n": 65, "temperature": 0}, "n must be at most 64, got 65."),
        ({"best_of": 65, "temperature": 0}, "best_of must be at most 64, got 65."),
        ({"n": 2, "best_of": 1}, "best_of must be greater than or equal to n, got n=2 and best_of=1."),
        ({"allowed_token_ids": []}, "allowed_token_ids is not None and empty!"),
        ({"priority": 1}, "Got priority 1 but priority scheduling is not enabled"),
        (
            {"truncate_prompt_tokens": 4, "truncation_side": "right"},
            "truncation_side must be left: the prompt's last tokens are kept",
        ),
        (
            {"use_beam_search": True},
            "use_beam_search is not supported: use sampling or greedy decoding",
        ),
        (
            {"logit_bias": {"1.5": 1, "5": 1, "a": 1}},
            "Found token_id in logit_bias that is not an integer or string representing an integer: "
            "'1.5', 'a'",
        ),
        ({"logit_bias": {"5": "nan"}}, "logit_bias must hold finite numbers."),
        ({"temperature": "nan"}, "temperature must be non-negative, got nan."),
        ({"seed": 2**63}, f"seed must be an integer of 64 bits, got {2**63}."),
        ({"seed": -(2**63) - 1}, f"seed must be an integer of 64 bits, got {-(2**63) - 1}."),
        (
            {"truncate_prompt_tokens": 0},
            "The decoder prompt cannot be empty: truncate_prompt_tokens must be -1, or at least 1, got 0.",
        ),
        ({"truncate_prompt_tokens": -2}, "truncate_prompt_tokens must be -1, or at least 1, got -2."),
    ],
)
def test_a_value_out_of_range_is_refused_in_vllms_words(
    client: FlaskClient, path: str, prefix: str, stream: bool, fields: dict[str, Any], message: str
) -> None:
    response = client.post(prefix + path, json=body_for(path, **fields, stream=stream))
    refusal(response, 400, message, "BadRequestError")


@pytest.mark.parametrize(
    ("path", "fields", "message"),
    [
        (COMPLETIONS, {"suffix": "b"}, "suffix is not currently supported"),
        (CHATS, {"messages": [{"role": "user", "content": ["a", IMAGE]}]}, TEXT_ONLY),
        (
            RESPONSES,
            {"input": [{"type": "reasoning"}, {"role": "user", "content": ["a", IMAGE]}]},
            TEXT_ONLY.replace("messages[0]", "input[1]"),
        ),
        (COMPLETIONS, {"best_of": 2, "stream": True}, None),
        (CHATS, {"chat_template": "{{ x }}"}, None),
        (CHATS, {"structured_outputs": {"structural_tag": {}}}, None),
        (
            CHATS,
            {"grammar": "root ::= [a]", "grammar_lazy": True},
            "grammar_lazy is not supported: a grammar applies from the first token",
        ),
        (
            COMPLETIONS,
            {"structural_tag": "{}"},
            "structural_tag is not supported: use grammar or json_schema",
        ),
        (
            RESPONSES,
            {"structural_tag": {"type": "x"}},
            "structural_tag is not supported: use grammar or json_schema",
        ),
        (CHATS, {"cache_salt": ""}, "Parameter 'cache_salt' must be a non-empty string if provided."),
        (COMPLETIONS, {"logits_processors": ["x"]}, None),
        (
            CHATS,
            {"logprobs": True, "logprob_token_ids": [5]},
            "logprob_token_ids is not supported: use top_logprobs or logprobs",
        ),
        (
            COMPLETIONS,
            {"logprobs": 21},
            "Requested sample logprobs of 21, which is greater than max allowed: 20",
        ),
        (
            CHATS,
            {"logprobs": True, "top_logprobs": 21},
            "Requested sample logprobs of 21, which is greater than max allowed: 20",
        ),
        (
            CHATS,
            {"prompt_logprobs": 21},
            "Requested prompt logprobs of 21, which is greater than max allowed: 20",
        ),
        (RESPONSES, {"background": True}, None),
        (
            RESPONSES,
            {"prompt": {"id": "p"}},
            "prompt is not supported: this server stores no prompt templates",
        ),
        (
            RESPONSES,
            {"response_format": {"type": "json_object"}},
            "Unsupported parameter: 'response_format'. In the Responses API, this parameter has moved to "
            "'text.format'.",
        ),
        (RESPONSES, {"max_output_tokens": 0}, "max_output_tokens must be at least 1, got 0."),
    ],
)
def test_an_unsupported_field_is_refused(
    client: FlaskClient, path: str, fields: dict[str, Any], message: str | None
) -> None:
    response = client.post(path, json=body_for(path, **fields))
    refusal(response, 400, message or response.get_json()["error"]["message"], "BadRequestError")


@pytest.mark.parametrize(
    ("path", "fields", "message"),
    [
        (
            CHATS,
            {"stream_options": {"include_usage": True}},
            "Stream options can only be defined when `stream=True`.",
        ),
        (
            COMPLETIONS,
            {"prompt_logprobs": 1, "stream": True},
            "`prompt_logprobs` are not available when `stream=True`.",
        ),
        (CHATS, {"prompt_logprobs": -1}, "`prompt_logprobs` must be a positive value."),
        (COMPLETIONS, {"logprobs": -1}, "`logprobs` must be a positive value."),
        (CHATS, {"logprobs": True, "top_logprobs": -1}, "`top_logprobs` must be a positive value."),
        (CHATS, {"top_logprobs": 2}, "when using `top_logprobs`, `logprobs` must be set to true."),
        (CHATS, {"tool_choice": "auto"}, "When using `tool_choice`, `tools` must be set."),
        (CHATS, {"tool_choice": NAMED}, "When using `tool_choice`, `tools` must be set."),
        (
            CHATS,
            {"tool_choice": NAMED, "tools": [WEATHER]},
            "The tool specified in `tool_choice` does not match any of the specified `tools`",
        ),
        (
            CHATS,
            {"tool_choice": "other", "tools": [WEATHER]},
            "The tool specified in `tool_choice` does not match any of the specified `tools`",
        ),
        (CHATS, {"tool_choice": "required", "tools": []}, "When using `tool_choice`, `tools` must be set."),
        (RESPONSES, {"tool_choice": "required"}, "When using `tool_choice`, `tools` must be set."),
        (
            CHATS,
            {"guided_regex": "a", "tools": [WEATHER], "tool_choice": "get_weather"},
            "You can only either use constraints for structured outputs or tools, not both.",
        ),
        (
            CHATS,
            {"guided_regex": "a", "guided_choice": ["a"]},
            f"{ONE_KIND} This request sets guided_regex and guided_choice.",
        ),
        (CHATS, {"function_call": {"name": "f"}}, "When using `function_call`, `functions` must be set."),
        (
            CHATS,
            {"functions": [{"name": "f"}], "tools": [WEATHER]},
            "functions and tools cannot both be set.",
        ),
        (
            COMPLETIONS,
            {"structured_outputs": {"regex": "a", "json": {}}},
            f"{ONE_KIND} This request sets structured_outputs.json and structured_outputs.regex.",
        ),
        (
            CHATS,
            {"structured_outputs": {"regex": "a"}, "response_format": {"type": "json_object"}},
            f"{ONE_KIND} This request sets structured_outputs.regex and response_format.",
        ),
        (
            COMPLETIONS,
            {"grammar": "root ::= [a]", "regex": "a"},
            f"{ONE_KIND} This request sets grammar and regex.",
        ),
        (
            CHATS,
            {"json_schema": {"type": "object"}, "structured_outputs": {"json": {}}},
            f"{ONE_KIND} This request sets structured_outputs.json and json_schema.",
        ),
        (CHATS, {"response_format": {"type": "grammar"}}, "response_format.grammar is required"),
        (COMPLETIONS, {"prompt": ""}, "Either prompt or prompt_embeds must be provided and non-empty."),
        (COMPLETIONS, {"prompt": []}, "Either prompt or prompt_embeds must be provided and non-empty."),
        (COMPLETIONS, {"prompt": None}, "Either prompt or prompt_embeds must be provided and non-empty."),
        (
            CHATS,
            {"continue_final_message": True, "add_generation_prompt": True},
            "Cannot set both `continue_final_message` and `add_generation_prompt` to True.",
        ),
        (COMPLETIONS, {"prompt": ["a", 1]}, None),
        (COMPLETIONS, {"prompt": ["a", ""]}, None),
        (COMPLETIONS, {"prompt": ["a", []]}, None),
        (COMPLETIONS, {"prompt": 5}, None),
        (COMPLETIONS, {"n": "two"}, None),
        (CHATS, {"messages": []}, "messages must hold at least one message"),
        (CHATS, {"messages": [{"role": "", "content": "hi"}]}, "messages[0].role must not be empty"),
        (CHATS, {"messages": [{"role": "user"}]}, "messages[0].content must not be null"),
        (CHATS, {"messages": [{"role": "user", "content": [{"type": "text"}]}]}, None),
        (CHATS, {"messages": None}, None),
        (CHATS, {"tools": [{"type": "web", "function": {"name": "f"}}]}, None),
        (CHATS, {"tools": [{"type": "function"}]}, "tools[0].function.name must not be empty"),
        (
            CHATS,
            {"tools": [{"type": "custom", "custom": {"name": "f"}}]},
            "tools[0].type must be function, got 'custom': only /v1/responses takes other tools",
        ),
        (CHATS, {"response_format": {"type": "yaml"}}, None),
        (CHATS, {"response_format": {"type": "json_schema"}}, "response_format.json_schema is required"),
        (
            CHATS,
            {"response_format": {"type": "json_schema", "json_schema": {"name": "x", "schema": False}}},
            "the schema false allows no answer: send an object",
        ),
        (CHATS, {"response_format": {"type": "regex"}}, None),
        (RESPONSES, {"input": None}, None),
        (RESPONSES, {"input": []}, "input must hold at least one message"),
        (RESPONSES, {"input": [{"role": "bob", "content": "a"}]}, None),
        (RESPONSES, {"input": [{"type": "function_call", "name": "f"}]}, None),
        (RESPONSES, {"input": [{"type": "function_call_output", "call_id": "f"}]}, None),
    ],
)
def test_a_wrong_body_is_a_bad_request(
    client: FlaskClient, backend: FakeBackend, path: str, fields: dict[str, Any], message: str | None
) -> None:
    response = client.post(path, json=body_for(path, **fields))
    refusal(response, 400, message or response.get_json()["error"]["message"], "Bad Request")
    assert backend.requests == []


@pytest.mark.parametrize("path", [COMPLETIONS, CHATS, RESPONSES, "/v1/embeddings"])
@pytest.mark.parametrize("model", ["nope", "org/nope"])
def test_an_unknown_model_does_not_exist(client: FlaskClient, path: str, model: str) -> None:
    body = {"model": model, "prompt": "a", "messages": [USER], "input": "a"}
    response = client.post(path, json=body)
    refusal(response, 404, f"The model `{model}` does not exist.", "NotFoundError", "not_found")


def test_the_error_of_an_unknown_model_has_vllms_shape(client: FlaskClient) -> None:
    error = {"message": "The model `x` does not exist.", "type": "NotFoundError", "param": None, "code": 404}
    response = client.post(COMPLETIONS, json={"prompt": "a", "model": "x"})
    assert response.get_json() == {"error": error, "error_type": "not_found"}


@pytest.mark.parametrize("model", [None, "tgi", "dummy", "model", "fake/model"])
def test_the_served_model_has_many_names(client: FlaskClient, model: str | None) -> None:
    assert client.post(COMPLETIONS, json={"prompt": "a", "model": model}).status_code == 200


@pytest.mark.parametrize("path", [COMPLETIONS, CHATS, RESPONSES])
@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize(
    ("error", "status", "message", "type", "error_type"),
    [
        (Overloaded(2.0), 429, Overloaded(2.0).message, "RateLimitError", "overloaded"),
        (Unavailable("loading"), 503, "loading", "Service Unavailable", "overloaded"),
        (BadRequest("seed", "is odd"), 400, "seed is odd", "BadRequestError", "validation"),
    ],
)
def test_an_error_before_the_first_byte_has_its_status(
    client: FlaskClient,
    backend: FakeBackend,
    path: str,
    stream: bool,
    error: ServerError,
    status: int,
    message: str,
    type: str,
    error_type: str,
) -> None:
    for refused in ({"error": error}, {"error": None, "script": [error]}):
        backend.__dict__.update(refused)
        response = client.post(path, json=body_for(path, stream=stream))
        refusal(response, status, message, type, error_type)
        assert response.headers.get("Retry-After") == ("2" if status == 429 else None)


UNREAD_RULE = "has more than 8192 characters, and the context holds 128 tokens"


@pytest.mark.parametrize("path", [COMPLETIONS, CHATS])
@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize(
    ("error", "message"),
    [
        (TooLong("prompt", 128, 200), TOO_LONG),
        (TooLong("messages", 128, 9000, UNREAD_RULE, "characters"), UNREAD),
        (TooLong("prompt", 9, 99, "may have at most 9 tokens"), "prompt may have at most 9 tokens, got 99"),
        (MaxTokensTooLarge(128, 60, 100), MAX_TOKENS_TOO_LARGE),
    ],
)
def test_a_prompt_past_the_context_has_openais_code(
    client: FlaskClient, backend: FakeBackend, path: str, stream: bool, error: BadRequest, message: str
) -> None:
    """Agents read the code and shorten the conversation; clients of vLLM read the sentence."""
    backend.error = error
    response = client.post(path, json=body_for(path, stream=stream))
    refusal(response, 400, message, "invalid_request_error", code="context_length_exceeded")
    assert response.get_json()["error"]["param"] == error.field


@pytest.mark.parametrize("stream", [False, True])
def test_an_input_past_the_context_has_openais_code(
    client: FlaskClient, backend: FakeBackend, stream: bool
) -> None:
    backend.error = TooLong("messages", 128, 200)
    response = client.post(RESPONSES, json=body_for(RESPONSES, stream=stream))
    refusal(response, 400, TOO_LONG, "invalid_request_error", code="context_length_exceeded")
    assert response.get_json()["error"]["param"] == "input"


@pytest.mark.parametrize("path", [COMPLETIONS, CHATS])
def test_an_error_in_a_stream_is_sent_before_done(
    client: FlaskClient, backend: FakeBackend, path: str
) -> None:
    backend.script = [*say("a")[:-1], Unavailable("stopping")]
    response = client.post(path, json=body_for(path, stream=True))
    assert response.status_code == 200
    assert response.text.endswith(
        'data: {"error":{"message":"stopping","type":"Service Unavailable","param":null,"code":503},'
        '"error_type":"overloaded"}\n\ndata: [DONE]\n\n'
    )


def test_an_error_in_a_responses_stream_is_an_event(client: FlaskClient, backend: FakeBackend) -> None:
    backend.script = [*say("a")[:-1], Unavailable("stopping")]
    text = client.post(RESPONSES, json=body_for(RESPONSES, stream=True)).text
    assert '\n\nevent: error\ndata: {"type":"error","message":"stopping","param":null,' in text
    assert text.endswith("\n\n")
