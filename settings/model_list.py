"""MODELS: the models to serve, each on this machine or on a server, as in h2oGPT's MODEL_LOCK.

A value is JSON or a Python literal, or @file with one: a list of objects, or one object. Raises BadEntry.
"""

import ast
import json
import os
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from settings.inference_server import BadServer, InferenceServer, bearer, parse_server

MAX_CONCURRENT = 64
# Keys of h2oGPT that load a model on a GPU of its own machine, or that its web page reads.
WITHOUT_EFFECT = frozenset({"visible_models", "h2ogpt_key", "load_8bit", "load_4bit", "load_gptq", "gpu_id"})
NOT_BUILT = frozenset({"members", "fallbacks", "context_fallbacks", "tokenizer_base_model", "prompt_dict"})
FOLDER_STARTS = ("models/", ".", "/", "~")
AUTO_NAME_SWITCH = "DISABLE_OPENAI_AUTO_MODEL_NAME"  # h2oGPT's


class BadEntry(ValueError):
    """A value of MODELS that names no models. The message is shown to the user, and has no key in it."""


@dataclass(frozen=True, slots=True)
class Timeouts:
    """Seconds: to connect, to the first event of an answer, and without a byte after it."""

    connect: float = 5.0
    first: float = 120.0
    silence: float = 60.0


@dataclass(frozen=True, slots=True)
class RemoteModel:
    """A model that a server answers for.

    name            the name that requests use
    upstream_name   the name that the server knows
    takes_listed_name  the server's own name for its only model replaces upstream_name
    context         tokens of prompt and answer together; None: the server's own
    prompt_type     h2oGPT's name or number of how a conversation becomes text; empty: it stays messages
    max_tokens      of an answer to a request without a limit, where the server's own default is too low
    drop            fields that are left out if the server does not support them, rather than refused
    extra           fields that are added to every body
    max_concurrent  requests that run at the server at the same time; further ones get status 429
    must_connect    a server that does not respond at the start refuses it
    """

    name: str
    upstream_name: str
    server: InferenceServer
    takes_listed_name: bool = False
    context: int | None = None
    max_tokens: int | None = None
    prompt_type: str = ""
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    drop: frozenset[str] = frozenset()
    extra: Mapping[str, Any] = field(default_factory=dict)
    max_concurrent: int = MAX_CONCURRENT
    timeouts: Timeouts = Timeouts()
    ca: str = ""
    proxy: str = ""
    must_connect: bool = False


@dataclass(frozen=True, slots=True)
class LocalModel:
    """A model on this machine, by the name or folder that MODEL_NAME would have."""

    name: str


@dataclass(frozen=True, slots=True)
class ServedModels:
    """The models of MODELS in their order; empty: MODEL_NAME alone."""

    entries: tuple[RemoteModel | LocalModel, ...] = ()

    @property
    def remote(self) -> tuple[RemoteModel, ...]:
        return tuple(entry for entry in self.entries if isinstance(entry, RemoteModel))

    @property
    def local(self) -> LocalModel | None:
        return next((entry for entry in self.entries if isinstance(entry, LocalModel)), None)

    @property
    def is_local_first(self) -> bool:
        return not self.entries or isinstance(self.entries[0], LocalModel)


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
    if sum(isinstance(entry, LocalModel) for entry in entries) > 1:
        raise BadEntry("has several models without inference_server: one model runs on this machine")
    return ServedModels(tuple(_with_different_names(entries)))


def single_model(model_name: str, server: str) -> ServedModels:
    """The one model of MODEL_NAME and INFERENCE_SERVER. A folder of this machine names no remote model."""
    if model_name.startswith(FOLDER_STARTS):
        model_name = ""
    return ServedModels((parse_entry(1, {"base_model": model_name, "inference_server": server}),))


def parse_entry(number: int, entry: Any) -> RemoteModel | LocalModel:
    where = f"entry {number}"
    if not isinstance(entry, Mapping):
        raise BadEntry(f"{where}: must be an object with base_model and inference_server")
    _check_keys(where, entry)
    name, server_text = entry.get("base_model") or "", entry.get("inference_server") or ""
    if not isinstance(name, str) or not isinstance(server_text, str) or not (name or server_text):
        raise BadEntry(f"{where}: base_model must be the name of a model")
    if not server_text:
        return LocalModel(name)
    try:
        server = parse_server(server_text)
    except BadServer as error:
        raise BadEntry(f"{where}: inference_server {error}") from None
    if entry.get("key"):
        server = replace(server, headers=bearer(_secret(where, entry["key"])))
    is_auto = server.kind in ("vllm", "detect", "hearth") and not os.environ.get(AUTO_NAME_SWITCH)
    served_name = entry.get("display_name") or name
    values = {field: parse(where, entry[key]) for key, (field, parse) in KEYS.items() if entry.get(key)}
    return RemoteModel(served_name, name, server, takes_listed_name=is_auto, **values)


def _read(text: str) -> Any:
    """The value of JSON or a Python literal. An empty text has no models."""
    text = text.strip()
    if text.startswith("@"):
        try:
            text = Path(text[1:]).expanduser().read_text()
        except OSError as error:
            raise BadEntry(f"{text}: {error.strerror}") from None
    if not text:
        return []
    try:
        return json.loads(text)
    except ValueError:
        pass
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        raise BadEntry("must be JSON, or a Python literal: a list of objects") from None


def _check_keys(where: str, entry: Mapping[str, Any]) -> None:
    for key in entry:
        if key in NOT_BUILT and entry[key]:
            raise BadEntry(f"{where}: {key} is not supported yet")
        if key not in KEYS and key not in WITHOUT_EFFECT | NOT_BUILT | OWN_KEYS:
            known = ", ".join(sorted({*OWN_KEYS, *KEYS}))
            raise BadEntry(f"{where}: there is no key {key!r}; the keys are {known}")


def _secret(where: str, value: Any) -> str:
    """The key itself, or the value of the environment variable that "$NAME" means."""
    if not isinstance(value, str):
        raise BadEntry(f"{where}: key must be text")
    if not value.startswith("$"):
        return value
    if not (secret := os.environ.get(value[1:], "")):
        raise BadEntry(f"{where}: key: the environment has no {value[1:]}")
    return secret


def _whole_number(where: str, value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise BadEntry(f"{where}: max_seq_len, max_output_seq_len and max_concurrent must be whole numbers")
    return value


def _text(where: str, value: Any) -> str:
    return str(value)


def _names(where: str, value: Any) -> frozenset[str]:
    if not isinstance(value, list | tuple) or not all(isinstance(name, str) for name in value):
        raise BadEntry(f"{where}: drop must be a list of fields")
    return frozenset(value)


def _object(where: str, value: Any) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise BadEntry(f"{where}: headers and extra must be objects")
    return value


def _timeouts(where: str, value: Any) -> Timeouts:
    try:
        return Timeouts(**{name: float(seconds) for name, seconds in _object(where, value).items()})
    except (TypeError, ValueError):
        raise BadEntry(f"{where}: timeouts must hold seconds of connect, first and silence") from None


# key of an entry: (field of RemoteModel, how its value is parsed)
KEYS: Mapping[str, tuple[str, Callable[[str, Any], Any]]] = {
    "max_seq_len": ("context", _whole_number),
    "max_output_seq_len": ("max_tokens", _whole_number),
    "prompt_type": ("prompt_type", _text),
    "headers": ("headers", _object),
    "drop": ("drop", _names),
    "extra": ("extra", _object),
    "max_concurrent": ("max_concurrent", _whole_number),
    "timeouts": ("timeouts", _timeouts),
    "ca": ("ca", _text),
    "proxy": ("proxy", _text),
    "fail_if_cannot_connect": ("must_connect", lambda where, value: bool(value)),
}
OWN_KEYS = frozenset({"base_model", "inference_server", "display_name", "key"})


def _with_different_names(
    entries: Sequence[RemoteModel | LocalModel],
) -> Iterator[RemoteModel | LocalModel]:
    """The entries; a remote model whose name is taken is called name_1, name_2 and so on, as in h2oGPT."""
    counts = Counter(entry.name for entry in entries if isinstance(entry, LocalModel))
    for entry in entries:
        if isinstance(entry, LocalModel):
            yield entry
            continue
        count = counts[entry.name]
        counts[entry.name] += 1
        yield replace(entry, name=f"{entry.name}_{count}") if count else entry
