"""Rows that cannot be trained on, each with words of its refusal."""

from typing import Any

from tests.tuning.data.datasets import chat

GOOD = chat("Hi there", "The quick fox")
USER, ASSISTANT = GOOD["messages"]
CALL = {"function": {"name": "f", "arguments": "{}"}}


def answer_with(**fields: Any) -> dict[str, Any]:
    """A row whose answer has these fields."""
    return {"messages": [USER, {"role": "assistant", **fields}]}


def question_with(**fields: Any) -> dict[str, Any]:
    """A row whose question has these fields."""
    return {"messages": [{"role": "user", **fields}, ASSISTANT]}


BROKEN: dict[str, tuple[Any, str]] = {
    "no columns": ({}, "has the columns (none), which are no form"),
    "null columns": ({"messages": None}, "has the columns (none), which are no form"),
    "unknown columns": ({"colour": "red", "size": 1}, "has the columns 'colour', 'size', which are no form"),
    "messages are text": (
        {"messages": "hello"},
        "messages must be a list, or a list as JSON text: it is not JSON",
    ),
    "messages are a number": ({"messages": 3}, "messages must be a list, got 3"),
    "messages are an object": ({"messages": {"role": "user"}}, "messages must be a list"),
    "messages as text of an object": ({"messages": "{}"}, "messages must be a list, got {}"),
    "messages as text with NaN": ({"messages": "[NaN]"}, "NaN is no JSON number"),
    "messages as deep text": ({"messages": "[" * 9999}, "nested deeper than 100 levels"),
    "no messages": ({"messages": []}, "messages must have at least one message"),
    "a message is text": (
        {"messages": ["hi"]},
        "messages[0] must be an object with role and content, got 'hi'",
    ),
    "a message is null": ({"messages": [USER, None]}, "messages[1] must be an object"),
    "a message is a list": ({"messages": [[USER]]}, "messages[0] must be an object"),
    "no assistant": (
        {"messages": [USER]},
        "messages has no message of the assistant, which is what is trained",
    ),
    "only a system message": (
        {"messages": [{"role": "system", "content": "x"}]},
        "has no message of the assistant",
    ),
    "all weights are 0": (
        answer_with(content="x", weight=0),
        "has only messages of the assistant with weight 0",
    ),
    "no role": (
        {"messages": [{"content": "x"}, ASSISTANT]},
        "messages[0].role must be system, developer, user",
    ),
    "an unknown role": (
        answer_with(role="bot"),
        "messages[1].role must be system, developer, user, assistant or tool",
    ),
    "a role in capitals": ({"messages": [{"role": "User", "content": "x"}]}, "messages[0].role must be"),
    "a role that is a number": ({"messages": [{"role": 1, "content": "x"}]}, "messages[0].role must be"),
    "a role that is a list": ({"messages": [{"role": ["user"], "content": "x"}]}, "messages[0].role must be"),
    "a role that is null": ({"messages": [{"role": None, "content": "x"}]}, "messages[0].role must be"),
    "a sharegpt role": ({"conversations": [{"from": "cat", "value": "x"}]}, "conversations[0].from must be"),
    "no content": ({"messages": [{"role": "user"}, ASSISTANT]}, "messages[0].content must be text"),
    "null content": (question_with(content=None), "messages[0].content must be text"),
    "an answer without content": (
        answer_with(),
        "messages[1].content must be text: only a message with tool_calls",
    ),
    "content is a number": (
        question_with(content=3),
        "messages[0].content must be text or a list of text parts, got 3",
    ),
    "content is true": (answer_with(content=True), "messages[1].content must be text or a list"),
    "content is an object": (
        question_with(content={"text": "x"}),
        "messages[0].content must be text or a list",
    ),
    "an image": (
        question_with(content=[{"type": "image_url", "image_url": {"url": "data:"}}]),
        "messages[0].content[0].type must be text: only text can be trained, no images, got 'image_url'",
    ),
    "audio": (
        question_with(content=[{"type": "input_audio", "input_audio": {}}]),
        "messages[0].content[0].type must be",
    ),
    "a part without a type": (
        question_with(content=[{"text": "x"}]),
        "messages[0].content[0].type must be text",
    ),
    "a part without text": (
        question_with(content=[{"type": "text"}]),
        "messages[0].content[0].text must be text",
    ),
    "a part that is a number": (question_with(content=["x", 1]), "messages[0].content[1] must be a part"),
    "a part whose text is a list": (
        question_with(content=[{"type": "text", "text": []}]),
        "content[0].text must be text",
    ),
    "weight 0.5": (answer_with(content="x", weight=0.5), "messages[1].weight must be 0 or 1, got 0.5"),
    "weight 2": (answer_with(content="x", weight=2), "messages[1].weight must be 0 or 1, got 2"),
    "weight -1": (answer_with(content="x", weight=-1), "messages[1].weight must be 0 or 1, got -1"),
    "weight true": (answer_with(content="x", weight=True), "messages[1].weight must be 0 or 1, got True"),
    "weight as text": (answer_with(content="x", weight="1"), "messages[1].weight must be 0 or 1, got '1'"),
    "weight as a list": (answer_with(content="x", weight=[1]), "messages[1].weight must be 0 or 1"),
    "weight 1 of the user": (
        question_with(content="x", weight=1),
        "messages[0].weight may be 1 only in a message of the",
    ),
    "a name that is a number": (question_with(content="x", name=1), "messages[0].name must be text, got 1"),
    "reasoning that is a list": (
        answer_with(content="x", reasoning=[]),
        "messages[1].reasoning must be text",
    ),
    "calls are text": (answer_with(content="x", tool_calls="f()"), "messages[1].tool_calls must be a list"),
    "calls are an object": (
        answer_with(content="x", tool_calls=CALL),
        "messages[1].tool_calls must be a list",
    ),
    "a call is text": (answer_with(tool_calls=["f"]), "messages[1].tool_calls[0] must be a tool call"),
    "a call without a function": (answer_with(tool_calls=[{"id": "a"}]), "tool_calls[0] must be a tool call"),
    "a call without a name": (
        answer_with(tool_calls=[{"function": {}}]),
        "tool_calls[0] must be a tool call",
    ),
    "a call with a null function": (
        answer_with(tool_calls=[{"function": None}]),
        "tool_calls[0] must be a tool call",
    ),
    "a call whose name is a list": (
        answer_with(tool_calls=[{"function": {"name": ["f"]}}]),
        "function.name must be text",
    ),
    "arguments are a list": (
        answer_with(tool_calls=[{"function": {"name": "f", "arguments": []}}]),
        "messages[1].tool_calls[0].function.arguments must be an object, or one as JSON text, got []",
    ),
    "arguments are a text of a list": (
        answer_with(tool_calls=[{"function": {"name": "f", "arguments": "[1]"}}]),
        "messages[1].tool_calls[0].function.arguments must be an object, or one as JSON text, got '[1]'",
    ),
    "arguments are no JSON": (
        answer_with(tool_calls=[{"function": {"name": "f", "arguments": "{x"}}]),
        "arguments must be an object, or one as JSON text: it is not JSON: Expecting property name",
    ),
    "arguments have NaN": (
        answer_with(tool_calls=[{"function": {"name": "f", "arguments": '{"a": NaN}'}}]),
        "arguments must be an object, or one as JSON text: it is not JSON that can be trained on: NaN",
    ),
    "arguments with a key twice": (
        answer_with(tool_calls=[{"function": {"name": "f", "arguments": '{"a": 1, "a": 2}'}}]),
        "the key 'a' is given twice",
    ),
    "arguments are false": (
        answer_with(tool_calls=[{"function": {"name": "f", "arguments": False}}]),
        "function.arguments must be an object, or one as JSON text, got False",
    ),
    "images in a column": ({**GOOD, "images": ["x.png"]}, "images must be empty: only text can be trained"),
    "a call id that is a number": (
        answer_with(tool_calls=[{"id": 1, **CALL}]),
        "tool_calls[0].id must be text",
    ),
    "calls of the user": (
        question_with(content="x", tool_calls=[CALL]),
        "may only be in a message of the assistant",
    ),
    "a tool's answer for a number": (
        {"messages": [USER, {"role": "tool", "content": "x", "tool_call_id": 1}, ASSISTANT]},
        "messages[1].tool_call_id must be text, got 1",
    ),
    "tools are text": ({**GOOD, "tools": "f"}, "tools must be a list, or a list as JSON text"),
    "tools are an object": ({**GOOD, "tools": {"f": 1}}, "tools must be a list"),
    "a tool is text": ({**GOOD, "tools": ["f"]}, "tools[0] must be a function"),
    "a tool without a function": ({**GOOD, "tools": [{"type": "web_search"}]}, "tools[0] must be a function"),
    "a tool's name is a number": (
        {**GOOD, "tools": [{"function": {"name": 1}}]},
        "tools[0] must be a function",
    ),
    "parameters are text": (
        {**GOOD, "tools": [{"function": {"name": "f", "parameters": "x"}}]},
        "tools[0].function.parameters must be a JSON schema",
    ),
    "a description is a list": (
        {**GOOD, "tools": [{"function": {"name": "f", "description": []}}]},
        "tools[0].function.description must be text",
    ),
    "too many messages": ({"messages": [USER, ASSISTANT] * 251}, "messages may have at most 500 messages"),
    "dialog is a number": ({"dialog": 1}, "dialog must be a list"),
    "dialog is text": ({"dialog": "x"}, "dialog must be a list, or a list as JSON text"),
    "instruct without messages": (
        {"chat_completion_input": "[]", "expected_answer": "x"},
        "must have at least one",
    ),
    "expected_answer is a list": (
        {"chat_completion_input": [USER], "expected_answer": ["x"]},
        "expected_answer must be",
    ),
    "output is a number": ({"input": "x", "output": 1}, "output must be text, got 1"),
    "input is a list": ({"input": ["x"], "output": "x"}, "input must be text, got ['x']"),
    "question is an object": ({"question": {}, "answer": "x"}, "question must be text"),
    "answer is true": ({"question": "x", "answer": True}, "answer must be text, got True"),
    "instruction is a number": ({"instruction": 1, "output": "x"}, "instruction must be text"),
    "an alpaca input is a list": ({"instruction": "x", "input": [1], "output": "x"}, "input must be text"),
    "text is a number": ({"text": 1}, "text must be text, got 1"),
    "text is a list": ({"text": ["x"]}, "text must be text"),
    "text is empty": ({"text": ""}, "text must not be empty"),
    "a completion is empty": ({"prompt": "x", "completion": ""}, "completion must not be empty"),
    "a completion is a number": ({"prompt": "x", "completion": 1}, "completion must be a list, got 1"),
    "a prompt is a number": ({"prompt": 1, "completion": "x"}, "prompt must be a list, got 1"),
    "a completion without an answer": (
        {"prompt": [USER], "completion": [USER]},
        "completion has no message of the",
    ),
    "a system column is a list": (
        {"conversations": [USER, ASSISTANT], "system": ["x"]},
        "system must be text",
    ),
}

CHOSEN = {"chosen": [USER, ASSISTANT], "rejected": [USER, ASSISTANT]}
OPENAI = {"input": {"messages": [USER]}, "preferred_output": [ASSISTANT], "non_preferred_output": [ASSISTANT]}
RATING = {"prompt": "x", "completion": "y", "label": True}
BROKEN_PREFERENCES: dict[str, tuple[Any, str]] = {
    "input is text": ({**OPENAI, "input": "x"}, "input must be an object with messages, got 'x'"),
    "input is a list": ({**OPENAI, "input": [USER]}, "input must be an object with messages"),
    "input without messages": ({**OPENAI, "input": {}}, "input.messages must be a list, got None"),
    "input with no messages": (
        {**OPENAI, "input": {"messages": []}},
        "input.messages must have at least one",
    ),
    "an output is text": ({**OPENAI, "preferred_output": "x"}, "preferred_output must be a list"),
    "an output of the user": (
        {**OPENAI, "non_preferred_output": [USER]},
        "non_preferred_output has no message of the",
    ),
    "no output": ({**OPENAI, "preferred_output": []}, "preferred_output must have at least one message"),
    "only one output": (
        {"input": {"messages": [USER]}, "preferred_output": [ASSISTANT]},
        "which are no form of rows",
    ),
    "chosen is a number": ({**CHOSEN, "chosen": 1}, "chosen must be a list, got 1"),
    "rejected is an object": ({**CHOSEN, "rejected": {}}, "rejected must be a list"),
    "chosen is empty": ({**CHOSEN, "chosen": []}, "chosen must have at least one message"),
    "chosen without an answer": ({**CHOSEN, "chosen": [USER]}, "chosen has no message of the assistant"),
    "texts without a prompt": ({"chosen": "a", "rejected": "b"}, "prompt must be text, got None"),
    "text and messages": (
        {**CHOSEN, "rejected": "b", "prompt": "x"},
        "rejected must be text or messages, as chosen is",
    ),
    "a prompt that is a number": ({**CHOSEN, "prompt": 1}, "prompt must be a list, got 1"),
    "a prompt with an image": (
        {**CHOSEN, "prompt": [{"role": "user", "content": [{"type": "image"}]}]},
        "no images",
    ),
}
BROKEN_RATINGS: dict[str, tuple[Any, str]] = {
    "a label that is a number": (
        {**RATING, "label": 0.5},
        "label must be true for a desirable answer, or false, got 0.5",
    ),
    "a label that is a text": ({**RATING, "label": "good"}, "label must be true for a desirable answer"),
    "a label that is a list": ({**RATING, "label": []}, "label must be true for a desirable answer"),
    "no label": ({"prompt": "x", "completion": "y"}, "choose the method supervised, or other rows"),
}
