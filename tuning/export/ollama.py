"""Writes a Modelfile for Ollama beside a GGUF file: the chat template in Go's language, and the stop texts.

Ollama puts the token that begins a text in front by itself.
"""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from jinja2 import TemplateError

from inference.model.load.generation_config import stop_token_ids_of
from inference.text.sandbox.environment import bound_chat_templates
from tuning.export.gguf_file.vocabulary import adds_bos
from tuning.export.merge import MergedModel
from tuning.export.turns import NotTranslatable, Turns, chat_renderer, read_turns

MODELFILE = "Modelfile"
UNSAFE = ("{{", "}}", '"""')  # texts that would end a literal of the template


def write_modelfile(merged: MergedModel, folder: Path, gguf_name: str) -> list[str]:
    """Returns what the user must know."""
    lines, messages = [f"FROM ./{gguf_name}"], []
    try:
        lines.append(f'TEMPLATE """{go_template(merged.tokenizer)}"""')
    except (NotTranslatable, TemplateError, ValueError) as error:
        messages.append(
            f"the Modelfile has no TEMPLATE, since the chat template cannot be translated: {error}"
        )
    stops = stop_texts(merged.tokenizer, stop_token_ids_of(merged.model, merged.tokenizer))
    lines += [f'PARAMETER stop "{text}"' for text in stops]
    (folder / MODELFILE).write_text("\n".join(lines) + "\n", "utf-8")
    return messages


def go_template(tokenizer: Any) -> str:
    """The tokenizer's chat template for Ollama, without tools. Raises NotTranslatable."""
    if not tokenizer.chat_template:
        raise NotTranslatable("the model has none")
    bound_chat_templates()
    turns = read_turns(chat_renderer(tokenizer))
    bos = tokenizer.bos_token if adds_bos(tokenizer) else ""
    return to_go(turns, bos or "")


def to_go(turns: Turns, bos: str) -> str:
    """The turns as a template of Go's text/template. Raises NotTranslatable.

    bos: the text that Ollama adds by itself.
    """
    before_system, start = turns.before_system.removeprefix(bos), turns.start.removeprefix(bos)
    literals = (
        *(before_system, turns.after_system, start),
        *(turns.after_user, turns.after_assistant, turns.prompt_end),
    )
    if any(unsafe in literal for unsafe in UNSAFE for literal in literals):
        raise NotTranslatable("it has brackets or quotes that Go's templates reserve")
    return (
        f"{{{{ if .System }}}}{before_system}{{{{ .System }}}}{turns.after_system}"
        f"{{{{ else }}}}{start}{{{{ end }}}}"
        "{{ range $i, $_ := .Messages }}{{ $last := eq (len (slice $.Messages $i)) 1 }}"
        f'{{{{ if eq .Role "user" }}}}{{{{ .Content }}}}'
        f"{{{{ if $last }}}}{turns.prompt_end}{{{{ else }}}}{turns.after_user}{{{{ end }}}}"
        f'{{{{ else if eq .Role "assistant" }}}}{{{{ .Content }}}}{turns.after_assistant}'
        f"{{{{ end }}}}{{{{ end }}}}"
    )


def stop_texts(tokenizer: Any, token_ids: Iterable[int]) -> list[str]:
    return [tokenizer.decode([id]) for id in sorted(token_ids)]
