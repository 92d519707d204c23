"""A tokenizer's configuration as in tokenizer_config.json, for clients that prepare prompts themselves."""

from collections.abc import Mapping
from typing import Any

# How and from where transformers loaded the tokenizer: not part of its configuration, and partly private.
LOADER_OPTIONS = {
    *("auto_map", "backend", "code_revision", "force_download", "is_local", "local_files_only"),
    *("name_or_path", "proxies", "revision", "subfolder", "token", "trust_remote_code", "use_auth_token"),
}
PLACE_SUFFIXES = ("_file", "_path", "_dir")
MAX_INT = (1 << 63) - 1  # larger numbers stand for "no limit", and few JSON parsers read them


def tokenizer_config(tokenizer: Any, chat_template: str | Mapping[str, str] | None) -> dict[str, Any]:
    """The configuration, with special tokens as text, and the chat template that the server applies.

    chat_template: the template, or templates by name, of which the one named default counts.
    """
    config = {
        name: plain_value(value)
        for name, value in (*tokenizer.init_kwargs.items(), *tokenizer.special_tokens_map.items())
        if is_public(name) and is_plain(value)
    }
    config["tokenizer_class"] = type(tokenizer).__name__
    template = chat_template.get("default") if isinstance(chat_template, Mapping) else chat_template
    config.pop("chat_template", None)
    return config | ({"chat_template": template} if template else {})


def is_public(name: str) -> bool:
    return not (name in LOADER_OPTIONS or name.startswith("_") or name.endswith(PLACE_SUFFIXES))


def is_plain(value: Any) -> bool:
    """Whether `plain_value` can express the value in JSON."""
    if isinstance(value, Mapping):
        return all(map(is_plain, value.values()))
    if isinstance(value, list | tuple):
        return all(map(is_plain, value))
    if isinstance(value, int):
        return abs(value) <= MAX_INT
    return value is None or isinstance(value, str | float) or is_added_token(value)


def plain_value(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {str(key): plain_value(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [plain_value(each) for each in value]
    return value.content if is_added_token(value) else value


def is_added_token(value: Any) -> bool:
    return isinstance(getattr(value, "content", None), str)
