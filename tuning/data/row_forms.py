"""The forms of rows: which columns say which form, and how a row of it is parsed.

Every error is a BadRequest that names the column. Knows no files and no token ids.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import takewhile
from typing import Any

from inference.errors import BadRequest, short
from inference.types import Message
from tuning.data.conversation import (
    Conversation,
    parse_conversation,
    parse_messages,
    parse_tools,
    text_of,
    unread_keys,
)
from tuning.types import Method

Row = Mapping[str, Any]
MEDIA_COLUMNS = frozenset(("image", "images", "audio", "audios", "video", "videos"))
LABELS: Mapping[Any, bool] = {True: True, False: False, "true": True, "false": False}


@dataclass(frozen=True, slots=True)
class Completion:
    """Plain text: the loss is on the completion and an end token. Without a prompt it is on all the text."""

    prompt: str
    completion: str


TrainedText = Conversation | Completion


@dataclass(frozen=True, slots=True)
class Preference:
    chosen: TrainedText
    rejected: TrainedText


@dataclass(frozen=True, slots=True)
class Rating:
    trained_text: TrainedText
    is_desirable: bool


ParsedRow = TrainedText | Preference | Rating


@dataclass(frozen=True, slots=True)
class RowForm:
    """A form of rows.

    columns   those that a row must have
    optional  further columns that are read
    """

    name: str
    columns: tuple[str, ...]
    parse: Callable[[Row], ParsedRow]
    optional: tuple[str, ...] = ()

    def matches(self, row: Row) -> bool:
        return all(row.get(column) is not None for column in self.columns)

    def describe(self) -> str:
        return f"{self.name} ({', '.join(self.columns)})"


def find_form(row: Row, method: Method) -> RowForm:
    """The form of a row for a method. Raises BadRequest that names the columns."""
    for row_form in ROW_FORMS[method]:
        if row_form.matches(row):
            return row_form
    columns = ", ".join(short(name, 40) for name, value in row.items() if value is not None)[:200]
    fitting_methods = [
        other for other, row_forms in ROW_FORMS.items() if any(each.matches(row) for each in row_forms)
    ]
    rule = f"has the columns {columns or '(none)'}, which are no form of rows for the method {method}"
    if fitting_methods:
        fix = f"choose the method {' or '.join(fitting_methods)}, or other rows"
    else:
        fix = f"the forms are {'; '.join(each.describe() for each in ROW_FORMS[method])}"
    raise BadRequest("", f"{rule}: {fix}")


def unread_columns(row: Row, row_form: RowForm) -> Iterator[str]:
    """The columns and keys of messages that nothing reads, null values aside."""
    known_columns = {*row_form.columns, *row_form.optional}
    for name, value in row.items():
        if name in known_columns:
            yield from (f"{name}[].{key}" for key in unread_keys(value) if name != "tools")
        elif value is not None:
            yield name


def refuse_media(row: Row) -> None:
    """Raise BadRequest for a row with images, sound or a film in a column of its own."""
    for name, value in row.items():
        if name in MEDIA_COLUMNS and value:
            raise BadRequest(name, "must be empty: only text can be trained, no images", value)


def parse_chat(row: Row) -> Conversation:
    return parse_conversation(row["messages"], row.get("tools"))


def parse_dialog(row: Row) -> Conversation:
    return parse_conversation(row["dialog"], row.get("tools"), "dialog")


def parse_sharegpt(row: Row) -> Conversation:
    conversation = parse_conversation(row["conversations"], row.get("tools"), "conversations")
    system = text_of(row.get("system") or "", "system")
    return continued((Message("system", system),), conversation) if system else conversation


def parse_instruct(row: Row) -> Conversation:
    messages = parse_messages(row["chat_completion_input"], "chat_completion_input")
    return answered(messages, text_of(row["expected_answer"], "expected_answer"))


def parse_alpaca(row: Row) -> Conversation:
    texts = (text_of(row["instruction"], "instruction"), text_of(row.get("input") or "", "input"))
    return answered((Message("user", "\n\n".join(filter(None, texts))),), text_of(row["output"], "output"))


def parse_input_output(row: Row) -> Conversation:
    return answered((Message("user", text_of(row["input"], "input")),), text_of(row["output"], "output"))


def parse_question_answer(row: Row) -> Conversation:
    user = Message("user", text_of(row["question"], "question"))
    return answered((user,), text_of(row["answer"], "answer"))


def parse_completion(row: Row) -> TrainedText:
    if row["completion"] == "":
        raise BadRequest("completion", "must not be empty")
    return prompted(row["prompt"], row["completion"], "completion", row.get("tools"))


def parse_text(row: Row) -> Completion:
    if row["text"] == "":
        raise BadRequest("text", "must not be empty")
    return Completion("", text_of(row["text"], "text"))


def parse_openai_preference(row: Row) -> Preference:
    prompt = row["input"]
    if not isinstance(prompt, dict):
        raise BadRequest("input", "must be an object with messages", prompt)
    messages, tools = parse_messages(prompt.get("messages"), "input.messages"), prompt.get("tools")
    outputs = ("preferred_output", "non_preferred_output")
    return Preference(*(continued(messages, parse_conversation(row[key], tools, key)) for key in outputs))


def parse_preference(row: Row) -> Preference:
    """TRL's rows. Without a prompt, both conversations begin with it."""
    chosen, rejected = (
        prompted(row.get("prompt"), row[key], key, row.get("tools")) for key in ("chosen", "rejected")
    )
    if isinstance(chosen, Conversation) and isinstance(rejected, Conversation):
        pairs = zip(chosen.messages, rejected.messages, strict=False)
        num_common = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))
        return Preference(answers_behind(chosen, num_common), answers_behind(rejected, num_common))
    if type(chosen) is not type(rejected):
        raise BadRequest("rejected", "must be text or messages, as chosen is")
    return Preference(chosen, rejected)


def parse_rating(row: Row) -> Rating:
    trained_text = prompted(row["prompt"], row["completion"], "completion", row.get("tools"))
    label = LABELS.get(row["label"]) if isinstance(row["label"], bool | int | str) else None
    if label is None:
        raise BadRequest("label", "must be true for a desirable answer, or false", row["label"])
    return Rating(trained_text, label)


def prompted(prompt: Any, completion: Any, key: str, tools: Any) -> TrainedText:
    """The completion of a prompt; each is text or messages, and messages may repeat the prompt."""
    if isinstance(completion, str) and (prompt is None or isinstance(prompt, str)):
        return Completion(text_of(prompt, "prompt"), completion)
    messages = parse_prompt(prompt)
    if isinstance(completion, str):
        return replace(answered(messages, completion), tools=parse_tools(tools))
    conversation = parse_conversation(completion, tools, key)
    first_messages = conversation.messages[: conversation.trained_indices[0]]
    is_repeated = all(message in first_messages for message in messages)
    return conversation if is_repeated else continued(messages, conversation)


def parse_prompt(value: Any) -> tuple[Message, ...]:
    if value is None:
        return ()
    return (Message("user", value),) if isinstance(value, str) else parse_messages(value, "prompt")


def answered(prompt: Sequence[Message], completion: str) -> Conversation:
    return Conversation((*prompt, Message("assistant", completion)), (len(prompt),))


def continued(prompt: Sequence[Message], conversation: Conversation) -> Conversation:
    """The conversation behind further messages, which are not trained."""
    trained_indices = tuple(len(prompt) + i for i in conversation.trained_indices)
    return replace(conversation, messages=(*prompt, *conversation.messages), trained_indices=trained_indices)


def answers_behind(conversation: Conversation, num_common: int) -> Conversation:
    """The conversation, of which messages that both sides of a pair have are not trained."""
    trained_indices = [i for i in conversation.trained_indices if i >= num_common]
    return replace(conversation, trained_indices=tuple(trained_indices) or conversation.trained_indices[-1:])


# The first form whose columns a row has is its form.
SUPERVISED = (
    RowForm("chat", ("messages",), parse_chat, ("tools",)),
    RowForm("dialog", ("dialog",), parse_dialog, ("tools",)),
    RowForm("sharegpt", ("conversations",), parse_sharegpt, ("tools", "system")),
    RowForm("instruct", ("chat_completion_input", "expected_answer"), parse_instruct, ("input_query",)),
    RowForm("alpaca", ("instruction", "output"), parse_alpaca, ("input",)),
    RowForm("input and output", ("input", "output"), parse_input_output),
    RowForm("question and answer", ("question", "answer"), parse_question_answer),
    RowForm("completion", ("prompt", "completion"), parse_completion, ("tools",)),
    RowForm("text", ("text",), parse_text),
)
PREFERENCE = (
    RowForm("preference", ("input", "preferred_output", "non_preferred_output"), parse_openai_preference),
    RowForm("chosen and rejected", ("chosen", "rejected"), parse_preference, ("prompt", "tools")),
)
RATING = (RowForm("rating", ("prompt", "completion", "label"), parse_rating, ("tools",)),)
ROW_FORMS: Mapping[Method, Sequence[RowForm]] = {
    "supervised": SUPERVISED,
    "dpo": PREFERENCE,
    "orpo": PREFERENCE,
    "kto": (*RATING, *PREFERENCE),
}
