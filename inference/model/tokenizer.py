"""A model's tokenizer, with what a tokenizer_config.json from elsewhere puts in place of its own.

Knows transformers' tokenizers; not what their templates say.
"""

from pathlib import Path
from typing import Any

from transformers import AutoTokenizer

from inference import foreign
from inference.errors import BadRequest

NAMED = ("bos_token", "eos_token", "unk_token", "pad_token")


def open_tokenizer(folder: Path, trust_remote_code: bool, **within: str) -> Any:
    """`within` names the file that has it, where that is none of a tokenizer's own."""
    return AutoTokenizer.from_pretrained(folder, trust_remote_code=trust_remote_code, **within)


def replace_settings(tokenizer: Any, path: Path) -> None:
    """Take the chat template and the special tokens from the file at `path`. Raises BadRequest."""
    told = read(path)
    if template := told.get("chat_template"):
        tokenizer.chat_template = templates(template)
    vocabulary = tokenizer.get_vocab()
    for name in NAMED:
        token = text_of(told.get(name))
        if token is None:
            continue
        if token not in vocabulary:
            raise BadRequest("TOKENIZER_CONFIG_PATH", f"names as {name} what the model does not have", token)
        setattr(tokenizer, name, token)


def read(path: Path) -> dict[str, Any]:
    try:
        return foreign.object_in(path.expanduser())
    except (OSError, ValueError) as error:
        rule = f"must be a tokenizer_config.json that can be read: {error}"
        raise BadRequest("TOKENIZER_CONFIG_PATH", rule, str(path)) from None


def templates(told: Any) -> Any:
    """A template, or several by name: files hold these as a list."""
    return {one["name"]: one["template"] for one in told} if isinstance(told, list) else told


def text_of(token: Any) -> str | None:
    """A special token's text: files hold the text itself, or an object around it."""
    return token.get("content") if isinstance(token, dict) else token
