"""Opens a model's tokenizer, and applies the overrides of TOKENIZER_CONFIG_PATH and CHAT_TEMPLATE.

Knows transformers' tokenizers; does not interpret chat templates.
"""

from pathlib import Path
from typing import Any

from transformers import AutoTokenizer

from inference import untrusted_json
from inference.errors import BadRequest, error_line
from inference.model.load.tokenizer_limits import check_tokenizer_limits
from inference.process import json_files

JINJA_BRACKETS = ("{{", "{%")
MIN_ORDINARY_TOKENS = 2  # T5's tokenizer has "▁" without any file
SPECIAL_TOKEN_NAMES = ("bos_token", "eos_token", "unk_token", "pad_token")


def open_tokenizer(folder: Path, trust_remote_code: bool) -> Any:
    """Open the tokenizer in `folder`.

    Raises BadRequest if its steps make a text many times longer, and ValueError if it has special tokens
    alone, as transformers makes it of a folder without a vocabulary.
    """
    check_tokenizer_limits(folder)
    with json_files.parsed_once():
        tokenizer = AutoTokenizer.from_pretrained(folder, trust_remote_code=trust_remote_code)
    if len(tokenizer) - len(tokenizer.all_special_ids) < MIN_ORDINARY_TOKENS:
        raise ValueError("its files have no vocabulary")
    return tokenizer


def replace_settings(tokenizer: Any, path: Path) -> None:
    """Replace the chat template and special tokens that the file at `path` sets. Raises BadRequest."""
    settings = read_tokenizer_config(path)
    if template := settings.get("chat_template"):
        tokenizer.chat_template = chat_templates(template)
    vocabulary = tokenizer.get_vocab()
    for name in SPECIAL_TOKEN_NAMES:
        token = token_text(settings.get(name))
        if token is None:
            continue
        if token not in vocabulary:
            raise BadRequest(
                "TOKENIZER_CONFIG_PATH", f"sets {name} to a token that the model does not have", token
            )
        setattr(tokenizer, name, token)


def read_tokenizer_config(path: Path) -> dict[str, Any]:
    try:
        return untrusted_json.read_json_object(path.expanduser())
    except (OSError, ValueError) as error:
        rule = f"must be a readable tokenizer_config.json: {error}"
        raise BadRequest("TOKENIZER_CONFIG_PATH", rule, str(path)) from None


def read_chat_template(template: str) -> str:
    """The chat template that CHAT_TEMPLATE gives: a file's text, or the value itself. Raises BadRequest."""
    if any(bracket in template for bracket in JINJA_BRACKETS):
        return template
    try:
        return Path(template).expanduser().read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        rule = f"must be the path of a readable file, or a template in Jinja: {error_line(error)}"
        raise BadRequest("CHAT_TEMPLATE", rule, template) from None


def chat_templates(template: Any) -> Any:
    """The chat template, or a dict of named templates, which files store as a list."""
    return {one["name"]: one["template"] for one in template} if isinstance(template, list) else template


def token_text(token: Any) -> str | None:
    """A special token's text; files store the text itself, or an object with the text as `content`."""
    return token.get("content") if isinstance(token, dict) else token
