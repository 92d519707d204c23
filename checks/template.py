"""Which conversations does the model's chat template take? Tried out as serving does, without a tokenizer.

Completions work whatever is found; where the template is broken, chat is refused, with the template's error.
"""

import traceback
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from transformers import PreTrainedTokenizerBase

from checks.finding import Finding, size
from checks.machine import Machine
from checks.plan import Plan
from checks.source.glance import TEMPLATE, TEMPLATES, TOKENIZER, TOKENS
from inference import foreign
from inference.errors import said
from inference.model.tokenizer import NAMED, templates, text_of
from inference.text.chat import ASKED, CALLED, MARK, REFUSALS, TOOL, Chat, reason
from inference.types import Message

NEED = "conversations to prompts"
ELSEWHERE = 'TOKENIZER_CONFIG_PATH = "…", a tokenizer_config.json with a chat template that works'
OTHERS = "choose another model, or set TOKENIZER_CONFIG_PATH to another file where it is set"
# What is raised about a tokenizer's settings, here as when it is loaded.
UNUSABLE = (OSError, ValueError, TypeError, KeyError)
# What a template may take, the conversation that shows it, and how often the mark is then in the prompt.
TRIED = (
    ("system messages", (Message("system", MARK), ASKED), 2, ()),
    ("several turns", (ASKED, Message("assistant", MARK), ASKED), 3, ()),
    ("tools", (ASKED,), 2, (TOOL,)),
    ("tools' results", CALLED, 2, ()),
)


def check(plan: Plan, machine: Machine) -> Finding | None:
    if plan.measure is None or plan.repository.notes is None:
        return None
    if unread := too_large(plan):
        return Finding("template", NEED, f"not known yet: {unread} is read when it is fetched", True)
    try:
        chat = Chat(stand_in(plan.repository.notes, plan.asked.tokenizer_config))
    except UNUSABLE as error:
        return Finding("template", "a tokenizer's settings", said(error), False, OTHERS)
    if chat.why:
        return Finding("template", NEED, "none: turns are written as User: and Assistant:", True)
    if broken := fault(chat):
        have = f"broken, {broken}: chat is refused, completions are not"
        return Finding("template", NEED, have, True, ELSEWHERE)
    return Finding("template", NEED, taken(chat), True)


def too_large(plan: Plan) -> str:
    """The file that would have the template, where it has not been read for its size; else empty."""
    source = plan.repository
    assert source.notes is not None
    has_template = plan.asked.tokenizer_config or TEMPLATE in source.names
    if has_template or TOKENIZER not in source.names or (source.notes / TOKENIZER).is_file():
        return ""
    num_bytes = next((file.size for file in source.files if file.name == TOKENIZER), 0)
    return f"{TOKENIZER} of {size(num_bytes)}"


def stand_in(folder: Path, replacing: Path | None) -> Any:
    """A tokenizer without a vocabulary: all that a template can see of one.

    A special token that the files do not name may be known to the tokenizer itself: it gets a name.
    """
    told = settings(folder / TOKENS) | settings(folder / TOKENIZER)
    template = dict(templates_of(folder)) or templates(told.get("chat_template"))
    if replacing:
        instead = foreign.object_in(replacing.expanduser())
        template = templates(instead.get("chat_template")) or template
        told |= instead
    tokens = {name: text_of(told.get(name)) or f"<{name}>" for name in NAMED}
    return PreTrainedTokenizerBase(chat_template=template or None, **tokens)


def settings(path: Path) -> dict[str, Any]:
    """A JSON object; an empty one where there is no file. Raises OSError or ValueError."""
    return foreign.object_in(path) if path.is_file() else {}


def templates_of(folder: Path) -> Iterator[tuple[str, str]]:
    """Those that are files of their own, by name."""
    if (folder / TEMPLATE).is_file():
        yield "default", (folder / TEMPLATE).read_text()
        for file in sorted((folder / TEMPLATES).glob("*.jinja")):
            yield file.stem, file.read_text()


def fault(chat: Chat) -> str:
    """Why not even one message of a user's becomes a prompt; empty where it does."""
    if chat.tells([ASKED], 1, chat.in_parts):
        return ""
    try:
        chat.tokenizer.apply_chat_template([{"role": "user", "content": MARK}], tokenize=False)
    except REFUSALS as error:
        return f"{line_of(error)}{reason(error)}"
    return "it leaves out what the user says"


def line_of(error: Exception) -> str:
    """ "line 3: ", of the template; empty where that is not known."""
    frames = traceback.extract_tb(error.__traceback__)
    lines = [frame.lineno for frame in frames if frame.filename == "<template>"]
    number = getattr(error, "lineno", None) or next(reversed(lines), None)
    return f"line {number}: " if number else ""


def taken(chat: Chat) -> str:
    """What it takes; the server tells it the rest in words."""
    takes = [name for name, told, times, tools in TRIED if chat.tells(told, times, chat.in_parts, tools)]
    rest = [name for name, *_ in TRIED if name not in takes]
    ours = f"; {', '.join(rest)} as plain words" if rest else ""
    return f"takes {', '.join(takes) or 'one message'}{ours}"
