"""Checks which conversations the model's chat template supports, by rendering it without a tokenizer.

Completions work in any case. If the template is broken, chat requests are refused with the template's error.
"""

import traceback
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from transformers import PreTrainedTokenizerBase

from checks.machine import Machine
from checks.memory.plan import Plan
from hub.small_files import SPECIAL_TOKENS, TEMPLATE, TEMPLATES, TOKENIZER
from inference import untrusted_json
from inference.errors import BadRequest, error_line
from inference.finding import Finding, format_size
from inference.model.load.tokenizer import SPECIAL_TOKEN_NAMES, chat_templates, read_chat_template, token_text
from inference.text.chat_template import ChatTemplate, first_line
from inference.text.template_features import TEMPLATE_ERRORS
from inference.text.template_probes import MARKER, PROBE_CALL_MESSAGES, PROBE_MESSAGE, PROBE_TOOL
from inference.types import Message

NEED = "a chat template"
TEMPLATE_FIX = 'TOKENIZER_CONFIG_PATH = "…", a tokenizer_config.json with a working chat template'
CHAT_TEMPLATE_FIX = 'CHAT_TEMPLATE = "…", a Jinja file with a chat template, or the template itself'
TOKENIZER_FIX = "choose another model or, if TOKENIZER_CONFIG_PATH is set, another file there"
# Errors for an invalid tokenizer_config.json, here and when the tokenizer is loaded.
TOKENIZER_ERRORS = (OSError, ValueError, TypeError, KeyError)
# (feature of a template, messages that use it, number of markers in the rendered prompt, tools)
CONVERSATIONS = (
    ("system messages", (Message("system", MARKER), PROBE_MESSAGE), 2, ()),
    ("several turns", (PROBE_MESSAGE, Message("assistant", MARKER), PROBE_MESSAGE), 3, ()),
    ("tools", (PROBE_MESSAGE,), 2, (PROBE_TOOL,)),
    ("tool results", PROBE_CALL_MESSAGES, 2, ()),
)


def check(plan: Plan, machine: Machine) -> Finding | None:
    if plan.model_size is None or plan.repository.metadata_folder is None:
        return None
    if unread_file := unread_template_file(plan):
        return Finding("template", NEED, f"not checked yet: {unread_file} is read after the fetch", True)
    try:
        chat = ChatTemplate(
            stub_tokenizer(
                plan.repository.metadata_folder,
                plan.request.tokenizer_config_path,
                plan.request.chat_template,
            )
        )
    except BadRequest as error:
        return Finding("template", NEED, error.message, False, CHAT_TEMPLATE_FIX)
    except TOKENIZER_ERRORS as error:
        return Finding("template", "a valid tokenizer_config.json", error_line(error), False, TOKENIZER_FIX)
    if chat.fallback_reason:
        return Finding("template", NEED, "none: turns are formatted as User: and Assistant:", True)
    if chat.limit_error:
        have = (
            f"broken, {template_file(plan)}: {chat.limit_error}: chat requests are refused, completions work"
        )
        return Finding("template", NEED, have, True, TEMPLATE_FIX)
    if template_error := find_template_error(chat):
        have = f"broken, {template_error}: chat requests are refused, completions work"
        return Finding("template", NEED, have, True, TEMPLATE_FIX)
    return Finding("template", NEED, describe_support(chat), True)


def unread_template_file(plan: Plan) -> str:
    """The file that may have the template, if it was too large to be read before the fetch; else empty."""
    repository = plan.repository
    assert repository.metadata_folder is not None
    has_template = (
        plan.request.chat_template or plan.request.tokenizer_config_path or TEMPLATE in repository.names
    )
    if (
        has_template
        or TOKENIZER not in repository.names
        or (repository.metadata_folder / TOKENIZER).is_file()
    ):
        return ""
    num_bytes = next((file.size for file in repository.files if file.name == TOKENIZER), 0)
    return f"{TOKENIZER} of {format_size(num_bytes)}"


def stub_tokenizer(folder: Path, tokenizer_config_path: Path | None, chat_template: str = "") -> Any:
    """A tokenizer without a vocabulary, but with everything that a template can read.

    A special token that the files do not name may still be known to the tokenizer: it gets a placeholder.
    """
    tokenizer_config = read_if_present(folder / SPECIAL_TOKENS) | read_if_present(folder / TOKENIZER)
    template = dict(read_template_files(folder)) or chat_templates(tokenizer_config.get("chat_template"))
    if tokenizer_config_path:
        overrides = untrusted_json.read_json_object(tokenizer_config_path.expanduser())
        template = chat_templates(overrides.get("chat_template")) or template
        tokenizer_config |= overrides
    if chat_template:
        template = read_chat_template(chat_template)
    tokens = {name: token_text(tokenizer_config.get(name)) or f"<{name}>" for name in SPECIAL_TOKEN_NAMES}
    return PreTrainedTokenizerBase(chat_template=template or None, **tokens)


def read_if_present(path: Path) -> dict[str, Any]:
    """Read a JSON object; empty if there is no file. Raises OSError or ValueError."""
    return untrusted_json.read_json_object(path) if path.is_file() else {}


def read_template_files(folder: Path) -> Iterator[tuple[str, str]]:
    """The templates that are separate files, by name."""
    if (folder / TEMPLATE).is_file():
        yield "default", (folder / TEMPLATE).read_text("utf-8")
        for file in sorted((folder / TEMPLATES).glob("*.jinja")):
            yield file.stem, file.read_text("utf-8")


def template_file(plan: Plan) -> str:
    """The setting or the file that the template comes from."""
    request, folder = plan.request, plan.repository.metadata_folder
    assert folder is not None
    if request.chat_template:
        return "CHAT_TEMPLATE"
    if request.tokenizer_config_path and "chat_template" in read_if_present(request.tokenizer_config_path):
        return "TOKENIZER_CONFIG_PATH"
    return TEMPLATE if (folder / TEMPLATE).is_file() else TOKENIZER


def find_template_error(chat: ChatTemplate) -> str:
    """Why the template cannot render a single user message; empty if it can."""
    if chat.features.renders([PROBE_MESSAGE], 1):
        return ""
    try:
        chat.tokenizer.apply_chat_template([{"role": "user", "content": MARKER}], tokenize=False)
    except TEMPLATE_ERRORS as error:
        return f"{describe_line(error)}{first_line(error)}"
    return "it leaves out the user's message"


def describe_line(error: Exception) -> str:
    """The template's line of the error, such as "line 3: "; empty if unknown."""
    frames = traceback.extract_tb(error.__traceback__)
    lines = [frame.lineno for frame in frames if frame.filename == "<template>"]
    number = getattr(error, "lineno", None) or next(reversed(lines), None)
    return f"line {number}: " if number else ""


def describe_support(chat: ChatTemplate) -> str:
    """The features that the template supports, and those that the server replaces with plain text."""
    supported = [
        name
        for name, messages, num_marks, tools in CONVERSATIONS
        if chat.features.renders(messages, num_marks, tools)
    ]
    unsupported = [name for name, *_ in CONVERSATIONS if name not in supported]
    fallback_note = f"; {', '.join(unsupported)} as plain text" if unsupported else ""
    return f"supports {', '.join(supported) or 'one message'}{fallback_note}"
