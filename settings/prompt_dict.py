"""An entry's prompt_type and prompt_dict, as in h2oGPT: the texts around messages, by name or one by one."""

from collections.abc import Mapping
from typing import Any

from settings.entry_values import BadEntry, read_literal

CUSTOM_TYPES = ("custom", "-1")  # the types whose texts are in prompt_dict
UNKNOWN_TYPES = ("unknown", "-2")  # h2oGPT's default: the type of the model's name
TEXTS = frozenset({"promptB", "PreInstruct", "PreResponse", "chat_sep", "chat_turn_sep"})
STOPS = "terminate_response"
# h2oGPT has them too, and uses none of them to render a conversation of the type custom.
WITHOUT_EFFECT = frozenset(
    {
        "promptA",
        "PreInput",
        "humanstr",
        "botstr",
        "generates_leading_space",
        "system_prompt",
        "can_handle_system_prompt",
    }
)


def parse_prompt_dict(where: str, value: Any) -> Mapping[str, Any]:
    """An object or its text: texts around messages, each of which may be None, and a list of stop strings."""
    try:
        prompt_dict = read_literal(value) if isinstance(value, str) else value
    except ValueError:
        prompt_dict = None
    if not isinstance(prompt_dict, Mapping):
        raise BadEntry(f"{where}: prompt_dict must be an object of texts")
    for key, each in prompt_dict.items():
        if key not in (*TEXTS, STOPS, *WITHOUT_EFFECT):
            keys = ", ".join((*sorted(TEXTS), STOPS))
            raise BadEntry(f"{where}: prompt_dict has no key {key!r}; the keys are {keys}")
        if key in TEXTS and not isinstance(each, str | None):
            raise BadEntry(f"{where}: prompt_dict: {key} must be text")
    stops = prompt_dict.get(STOPS) or ()
    if not isinstance(stops, list | tuple) or not all(isinstance(stop, str) and stop for stop in stops):
        raise BadEntry(f"{where}: prompt_dict: {STOPS} must be a list of texts")
    return prompt_dict


def complete_prompt_type(where: str, prompt_type: str, prompt_dict: Mapping[str, Any]) -> str:
    """The prompt type; a prompt_dict alone means custom. Raises BadEntry if they do not fit together.

    Empty: there is none.
    """
    prompt_type = "" if prompt_type in UNKNOWN_TYPES else prompt_type
    if not prompt_dict:
        if prompt_type in CUSTOM_TYPES:
            raise BadEntry(f"{where}: the prompt_type {prompt_type} needs its texts in prompt_dict")
        return prompt_type
    if prompt_type not in ("", *CUSTOM_TYPES):
        raise BadEntry(f"{where}: prompt_dict is for the prompt_type custom, not {prompt_type}")
    return CUSTOM_TYPES[0]
