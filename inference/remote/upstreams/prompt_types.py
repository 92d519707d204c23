"""h2oGPT's prompt types: how a conversation becomes the text that a model without a chat template completes.

prompt_types.json has the texts around each message, as h2oGPT a0ad192 renders them, and the models for which
h2oGPT takes each type (prompt_type_to_model_name of its src/prompter.py).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

import msgspec

from inference.content import content_text
from inference.errors import BadRequest
from inference.struct_types import ready
from inference.types import GenerationRequest, Message
from settings.remote_model import RemoteModel

TABLE = Path(__file__).with_suffix(".json")
SYSTEM = "{S}"  # where the text of the system messages goes
CUSTOM_NUMBER = -1


@dataclass(frozen=True, slots=True)
class PromptType:
    """The texts around the messages.

    before, user         in front of the conversation and of its first message, with SYSTEM in one of them
    *_without_system     the same for a conversation without a system message
    user_later           in front of later messages of the user
    sep                  behind each of them
    assistant            where the answer begins; assistant_past: the same in front of a past answer
    turn_sep             behind a past answer
    stops                strings that end an answer
    auto_system          h2oGPT's system text for the setting "auto", which this server does not have
    strip_leading_space  a space at the start of an answer is removed
    base_models          the models that have this type, in lower case
    """

    number: int
    before: str
    before_without_system: str
    user: str
    user_without_system: str
    user_later: str
    sep: str
    assistant: str
    assistant_past: str
    turn_sep: str
    stops: tuple[str, ...]
    auto_system: str
    takes_system: bool
    strip_leading_space: bool
    base_models: tuple[str, ...] = ()


@cache
def prompt_types() -> dict[str, PromptType]:
    """All types by name."""
    return msgspec.json.decode(TABLE.read_bytes(), type=ready(dict[str, PromptType]))


def find_prompt_type(name: str) -> PromptType | None:
    """The type of a name or a number; None: there is none."""
    types = prompt_types()
    return types.get(name) or next((each for each in types.values() if str(each.number) == name), None)


def type_name_of(base_model: str) -> str:
    """The name of a model's type; empty: h2oGPT names none for this model."""
    name = base_model.strip().lower()
    return next((each for each, prompt_type in prompt_types().items() if name in prompt_type.base_models), "")


def prompt_type_of(model: RemoteModel) -> PromptType | None:
    """The model's type; None: h2oGPT has none of this name."""
    return custom_type(model.prompt_dict) if model.prompt_dict else find_prompt_type(model.prompt_type)


def custom_type(prompt_dict: Mapping[str, Any]) -> PromptType:
    """The type of a prompt_dict, which may leave texts out. It has no place for a system text."""
    texts = {name: text for name, text in prompt_dict.items() if text is not None}
    before, user = texts.get("promptB", ""), texts.get("PreInstruct", "")
    assistant = texts.get("PreResponse", "")
    stops = tuple(texts.get("terminate_response", ()))
    return PromptType(
        number=CUSTOM_NUMBER,
        before=before,
        before_without_system=before,
        user=user,
        user_without_system=user,
        user_later=user,
        sep=prompt_dict.get("chat_sep", "\n") or "",
        assistant=assistant,
        assistant_past=assistant,
        turn_sep=prompt_dict.get("chat_turn_sep", "\n") or "",
        stops=(*stops, assistant) if stops else (),
        auto_system="",
        takes_system=False,
        strip_leading_space=False,
    )


def as_text(request: GenerationRequest, model: RemoteModel) -> GenerationRequest:
    """The request with its conversation as text. Raises BadRequest for what the type has no place for."""
    prompt_type = prompt_type_of(model)
    server = f"the server behind {model.name} with the prompt type {model.prompt_type}"
    assert prompt_type is not None, "the start refuses an unknown type"
    if request.tools:
        raise BadRequest("tools", f"are not supported by {server}")
    system, texts = system_and_texts(request, server)
    if system and not prompt_type.takes_system:
        raise BadRequest("messages", f"may have no system message for {server}")
    text = render(prompt_type, texts, system)
    stops = dict.fromkeys((*request.stop, *prompt_type.stops))
    return replace(request, prompt=text, stop=tuple(filter(None, stops)))


def system_and_texts(request: GenerationRequest, server: str) -> tuple[str, list[str]]:
    """The text of the system messages, and those of user and assistant in turn, the last one the user's.

    Raises BadRequest if the roles do not alternate.
    """
    messages = [message for message in request.prompt if isinstance(message, Message)]
    system = "\n".join(content_text(each.content) for each in messages if each.role == "system")
    others = [each for each in messages if each.role != "system"]
    roles = [each.role for each in others]
    if roles != ["user", "assistant"] * (len(roles) // 2) + ["user"]:
        rule = "must alternate between user and assistant, and end with user"
        raise BadRequest("messages", f"{rule}, for {server}")
    return system, [content_text(each.content) for each in others]


def render(prompt_type: PromptType, texts: Sequence[str], system: str) -> str:
    """The prompt for the texts of user and assistant in turn, the last one the user's."""
    before = prompt_type.before if system else prompt_type.before_without_system
    start = prompt_type.user if system else prompt_type.user_without_system
    rendered, start = [before.replace(SYSTEM, system)], start.replace(SYSTEM, system)
    for user_text, past_answer in zip(texts[:-1:2], texts[1::2], strict=True):
        rendered += [start, user_text, prompt_type.sep]
        rendered += [prompt_type.assistant_past, past_answer, prompt_type.turn_sep]
        start = prompt_type.user_later
    return "".join([*rendered, start, texts[-1], prompt_type.sep, prompt_type.assistant])
