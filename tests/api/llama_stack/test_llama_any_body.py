"""For any body that a client sends, the response is a reply or a refusal, never a server error."""

from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as some

from api import create_app
from settings.groups import ServerSettings
from tests.fakes.fake_backend import FakeBackend, make_models

CLIENT = create_app(make_models(FakeBackend()), ServerSettings()).test_client()

scalars = some.none() | some.booleans() | some.integers() | some.floats(allow_nan=False, allow_infinity=False)
numbers = some.none() | some.floats(allow_nan=False, allow_infinity=False)
leaves = scalars | some.text(some.characters(exclude_categories=["Cs"]), max_size=5)
roles = some.sampled_from(["user", "system", "assistant", "tool", "ipython"])
anything = some.recursive(
    leaves,
    lambda items: some.lists(items, max_size=3) | some.dictionaries(some.text(max_size=5), items, max_size=3),
)


def mostly(right: Any) -> Any:
    """Usually the right shape; sometimes an arbitrary value."""
    return some.integers(0, 30).flatmap(lambda chance: anything if chance == 17 else right)


def shape(required: dict[str, Any], **optional: Any) -> Any:
    required_fields = {name: mostly(value) for name, value in required.items()}
    return some.fixed_dictionaries(
        required_fields, optional={name: mostly(value) for name, value in optional.items()}
    )


text = some.text(some.characters(exclude_categories=["Cs"]), max_size=5)
content_part = shape({}, type=some.sampled_from(["text", "text", "text", "image"]), text=text)
content = text | content_part | some.lists(text | content_part, max_size=3)
call = shape({"tool_name": text}, call_id=text | some.none(), arguments=text, arguments_json=text)
message = shape(
    {"role": roles},
    content=content,
    context=content | some.none(),
    call_id=text | some.none(),
    tool_calls=some.lists(call, max_size=2),
)
parameter = shape({"param_type": some.sampled_from(["int", "List[str]", "[", ""])}, default=anything)
tool = shape({"tool_name": text}, parameters=some.dictionaries(text, parameter, max_size=2))
strategy = shape(
    {"type": some.sampled_from(["greedy", "top_p", "top_k"])},
    temperature=numbers,
    top_k=some.none() | some.integers(),
)
sampling = shape(
    {},
    strategy=strategy,
    temperature=numbers,
    max_tokens=some.none() | some.integers(),
    stop=text | some.lists(text),
)
response_format = shape(
    {"type": some.sampled_from(["json_schema", "grammar"])}, bnf=anything, json_schema=anything
)
common = {
    "sampling_params": sampling,
    "response_format": response_format,
    "logprobs": shape({}, top_k=some.none() | some.integers()),
}
config = shape({}, tool_choice=text, system_message_behavior=some.sampled_from(["append", "replace"]))
chats = shape(
    {"model": some.just("model"), "messages": some.lists(message, min_size=1, max_size=3)},
    tools=some.lists(tool, max_size=2),
    tool_config=config,
    stream=some.booleans(),
    **common,
)
completions = shape({"model": some.just("model"), "content": content}, stream=some.booleans(), **common)
fuzzed = settings(max_examples=25, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))


@fuzzed
@given(chats | anything, some.sampled_from(["/v1/inference/chat-completion", "/inference/chat_completion"]))
def test_any_chat_is_answered_or_refused(body: Any, path: str) -> None:
    assert CLIENT.post(path, json=body).status_code in (200, 400)


@fuzzed
@given(completions | anything)
def test_any_completion_is_answered_or_refused(body: Any) -> None:
    assert CLIENT.post("/inference/completion", json=body).status_code in (200, 400)
