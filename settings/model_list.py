"""MODELS: the models to serve, each on this machine or on a server, as in h2oGPT's MODEL_LOCK.

A value is JSON or a Python literal, or @file with one: a list of objects, or one object. Raises BadEntry.
"""

import os
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from settings import local_model
from settings.entry_values import (
    BadEntry,
    parse_names,
    parse_object,
    parse_switch,
    parse_text,
    parse_whole_number,
    read_literal,
    read_secret,
)
from settings.inference_server import BadServer, InferenceServer, bearer, parse_server
from settings.local_model import LocalModel, parse_local
from settings.prompt_dict import complete_prompt_type, parse_prompt_dict
from settings.remote_model import RemoteModel, Timeouts

MAX_FALLBACKS = 5
# Keys of h2oGPT that load a model on a GPU of its own machine, or that its web page reads.
WITHOUT_EFFECT = frozenset({"visible_models", "load_8bit", "load_4bit", "load_gptq", "gpu_id"})
FOLDER_STARTS = ("models/", ".", "/", "~")
# OpenAI's models that have chats alone: as in h2oGPT, `openai` means openai_chat for them.
CHAT_MODELS = re.compile(r"(?!.*-instruct)gpt-(3\.5-turbo|4)")
AUTO_NAME_SWITCH = "DISABLE_OPENAI_AUTO_MODEL_NAME"  # h2oGPT's


@dataclass(frozen=True, slots=True)
class ServedModels:
    """The models of MODELS in their order; empty: MODEL_NAME alone."""

    entries: tuple[RemoteModel | LocalModel, ...] = ()

    @property
    def remote(self) -> tuple[RemoteModel, ...]:
        return tuple(entry for entry in self.entries if isinstance(entry, RemoteModel))

    @property
    def local(self) -> tuple[LocalModel, ...]:
        return tuple(entry for entry in self.entries if isinstance(entry, LocalModel))

    def with_defaults(self, **defaults: Any) -> "ServedModels":
        """These models, each on another server as RemoteModel.with_defaults."""
        entries = (
            each.with_defaults(**defaults) if isinstance(each, RemoteModel) else each for each in self.entries
        )
        return ServedModels(tuple(entries))

    @property
    def own(self) -> LocalModel | None:
        """The model that this process loads itself and keeps; None: there is none."""
        is_kept = len(self.local) == 1 and self.local[0].keep_alive is None
        return self.local[0] if is_kept else None

    @property
    def on_demand(self) -> tuple[LocalModel, ...]:
        """The models of this machine that run in processes of their own, while they are needed."""
        return () if self.own else self.local


def parse_models(value: Any) -> ServedModels:
    """The models that a value of MODELS names."""
    if isinstance(value, ServedModels):
        return value
    objects = _read(value) if isinstance(value, str) else value
    if isinstance(objects, Mapping):
        objects = [objects]
    if not isinstance(objects, Sequence):
        raise BadEntry("must be a list of objects with base_model and inference_server")
    entries = [parse_entry(number, entry) for number, entry in enumerate(objects, 1)]
    return ServedModels(tuple(_with_different_names(entries)))


def single_model(model_name: str, servers: Sequence[str], context: int = 0) -> ServedModels:
    """The one model MODEL_NAME, at its servers. A folder of this machine names no remote model.

    context: 0: the servers' own
    """
    if model_name.startswith(FOLDER_STARTS):
        model_name = ""
    entry = {"base_model": model_name, "members": list(servers), "max_seq_len": context}
    return ServedModels((parse_entry(1, entry),))


def parse_entry(number: int, entry: Any) -> RemoteModel | LocalModel:
    where = f"entry {number}"
    if not isinstance(entry, Mapping):
        raise BadEntry(f"{where}: must be an object with base_model and inference_server")
    _check_keys(where, entry)
    name, server_text = entry.get("base_model") or "", entry.get("inference_server") or ""
    server_texts = parse_names(where, entry.get("members") or ())
    if not isinstance(name, str) or not isinstance(server_text, str):
        raise BadEntry(f"{where}: base_model must be the name of a model")
    if server_text:
        server_texts = (server_text, *server_texts)
    if not (name or server_texts):
        raise BadEntry(f"{where}: base_model must be the name of a model")
    if not server_texts:
        return parse_local(where, entry)
    key = entry.get("key") or entry.get("h2ogpt_key")
    server, *others = (_server(where, text, key) for text in server_texts)
    if server.kind == "openai" and CHAT_MODELS.match(name):
        server = replace(server, routes="chat")
    is_auto = server.kind in ("vllm", "detect", "hearth") and not os.environ.get(AUTO_NAME_SWITCH)
    served_name = entry.get("display_name") or name
    values = {field: parse(where, entry[key]) for key, (field, parse) in KEYS.items() if entry.get(key)}
    model = RemoteModel(served_name, name, server, tuple(others), takes_listed_name=is_auto, **values)
    prompt_type = complete_prompt_type(where, model.prompt_type, model.prompt_dict)
    return replace(model, prompt_type=prompt_type)


def _server(where: str, text: str, key: Any) -> InferenceServer:
    try:
        server = parse_server(text)
    except BadServer as error:
        raise BadEntry(f"{where}: inference_server {error}") from None
    return replace(server, headers=bearer(read_secret(where, key))) if key else server


def _read(text: str) -> Any:
    """The value of JSON or a Python literal. An empty text has no models."""
    text = text.strip()
    if text.startswith("@"):
        try:
            text = Path(text[1:]).expanduser().read_text("utf-8")
        except OSError as error:
            raise BadEntry(f"{text}: {error.strerror}") from None
    if not text:
        return []
    try:
        return read_literal(text)
    except ValueError:
        raise BadEntry("must be JSON, or a Python literal: a list of objects") from None


def _check_keys(where: str, entry: Mapping[str, Any]) -> None:
    for key in entry:
        if key not in (*KEYS, *local_model.KEYS, *WITHOUT_EFFECT, *OWN_KEYS):
            known = ", ".join(sorted({*OWN_KEYS, *KEYS, *local_model.KEYS}))
            raise BadEntry(f"{where}: there is no key {key!r}; the keys are {known}")


def _timeouts(where: str, value: Any) -> Timeouts:
    try:
        limits = {name: float(seconds) for name, seconds in parse_object(where, value).items()}
        return Timeouts(**limits, of_entry=frozenset(limits))
    except (TypeError, ValueError):
        raise BadEntry(f"{where}: timeouts must hold seconds of connect, first, silence and probe") from None


def _fallbacks(where: str, value: Any) -> tuple[str, ...]:
    names = parse_names(where, value)
    if len(names) > MAX_FALLBACKS:
        raise BadEntry(f"{where}: fallbacks and context_fallbacks may each name {MAX_FALLBACKS} models")
    return names


# key of an entry: (field of RemoteModel, how its value is parsed)
KEYS: Mapping[str, tuple[str, Callable[[str, Any], Any]]] = {
    "aliases": ("aliases", parse_names),
    "max_seq_len": ("context", parse_whole_number),
    "max_output_seq_len": ("max_tokens", parse_whole_number),
    "prompt_type": ("prompt_type", parse_text),
    "prompt_dict": ("prompt_dict", parse_prompt_dict),
    "tokenizer_base_model": ("tokenizer_folder", parse_text),
    "chat_template": ("chat_template", parse_text),
    "headers": ("headers", parse_object),
    "drop": ("drop", lambda where, value: frozenset(parse_names(where, value))),
    "extra": ("extra", parse_object),
    "max_concurrent": ("max_concurrent", parse_whole_number),
    "timeouts": ("timeouts", _timeouts),
    "ca": ("ca", parse_text),
    "proxy": ("proxy", parse_text),
    "fallbacks": ("fallbacks", _fallbacks),
    "context_fallbacks": ("context_fallbacks", _fallbacks),
    "fail_if_cannot_connect": ("must_connect", parse_switch),
}
OWN_KEYS = frozenset({"base_model", "inference_server", "members", "display_name", "key", "h2ogpt_key"})


def _with_different_names(entries: Sequence[RemoteModel | LocalModel]) -> list[RemoteModel | LocalModel]:
    """The entries; a model whose name is taken is called name_1, name_2 and so on, as in h2oGPT.

    The models of this machine have their names before those of other servers.
    """
    renamed, counts = list(entries), Counter[str]()
    for index in sorted(range(len(renamed)), key=lambda index: isinstance(renamed[index], RemoteModel)):
        entry = renamed[index]
        count = counts[entry.name]
        counts[entry.name] += 1
        if count:
            renamed[index] = replace(entry, name=f"{entry.name}_{count}")
    return renamed
