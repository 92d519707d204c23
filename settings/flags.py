"""The command line: a flag per setting and per alias of one, and the actions that replace serving.

Knows names and how many words a flag takes: sources.py checks the values, and help.py prints --help. A word
that is no flag is the model, and a leading `serve` is ignored, as in `vllm serve MODEL`.
"""

import json
import re
from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from settings.adapter_list import to_scaled_adapters
from settings.aliases import ALIASES, SERVE_SPELLINGS, SPELLINGS, UNSUPPORTED
from settings.aliases.convert import QUANTIZED_PRECISIONS
from settings.aliases.h2ogpt import OF_ENTRY
from settings.schema import TYPES, BadSetting
from settings.sources import FLAG_NAMES, Source, flag_name
from settings.sources import FLAGS as PLACE
from settings.unknown_names import describe_unknown
from settings.value_types import BOOLEANS, describe, is_list, is_switch, parse_bool

ACTIONS = {
    "--check": "report whether the model will run here, then exit with code 0 or 1",
    "--download": "check, fetch the missing files of the model, then exit with code 0 or 1",
    "--selftest": "load the model, test that answers do not depend on the batch, then exit with code 0 or 1",
    "--json": "with --check or --selftest: print the report as JSON",
    "--env": "print this machine and the versions of the libraries for a bug report, then exit",
    "--help": "print this text, then exit",
    "--version": "print the version of the server, then exit",
}
FLAGS: Mapping[str, str] = {flag_name(name): name for name in sorted(FLAG_NAMES)}
SUGGESTED_FLAGS = (*(flag_name(name) for name in sorted({*TYPES, *ALIASES})), *ACTIONS)
MODEL = "MODEL"  # the name of a word that is no flag
OPTIMIZATION_LEVEL = re.compile(r"-O\d")  # vLLM's, written without a space
REPO_AND_FILE = re.compile(r"([\w.-]+/[\w.-]+):([\w.-]+)")  # a repository and a part of a GGUF file's name


@dataclass(frozen=True, slots=True)
class Command:
    """The settings given as flags, and the requested actions, such as {"--check"}."""

    flags: Source
    actions: frozenset[str]


@dataclass(frozen=True, slots=True)
class Flag:
    """What a flag stands for: a setting, an alias, a flag of another server, or an action.

    name    the name of the setting, or the action's flag
    is_off  the flag switches it off, as --no-x does
    key     the flag sets only this key of a JSON object, as --x.key does
    """

    name: str
    is_off: bool = False
    key: str = ""


@dataclass(slots=True)
class ParsedFlags:
    """The flags read so far: the values and the spelling of each name."""

    values: dict[str, Any] = field(default_factory=dict)
    spellings: dict[str, str] = field(default_factory=dict)

    def add(self, flag: Flag, spelled: str, words: list[str]) -> None:
        """Several values of a list are added up; otherwise the last one counts."""
        self.spellings[flag.name] = spelled
        if flag.key:
            self.values[flag.name] = with_key(self.values.get(flag.name), flag.key.split("."), words[-1])
        elif is_list(kind(flag.name)) or takes_several(flag.name):
            self.values.setdefault(flag.name, []).extend(words)
        else:
            self.values[flag.name] = words[-1]


def parse(arguments: list[str]) -> Command:
    """Parse --name=value, --name value, bare switches and a model. Raises BadSetting for an unknown flag."""
    words, spellings = deque(arguments), SPELLINGS
    if words and words[0] == "serve":
        words.popleft()
        spellings = {**SPELLINGS, **SERVE_SPELLINGS}
    parsed = ParsedFlags()
    for spelled, flag, values in read_flags(words, spellings):
        if flag.name == MODEL and MODEL in (spelled, parsed.spellings.get(MODEL)) and MODEL in parsed.values:
            raise BadSetting(
                f"{values[0]} and {parsed.values[MODEL]}: two models, or one is not a flag's value"
            )
        parsed.add(flag, spelled, values)
    actions = {flag for flag in ACTIONS if parse_action(flag, parsed.values.pop(flag, "false"))}
    settings = {name: join(value) for name, value in parsed.values.items()}
    for rewrite in REWRITES:
        settings = rewrite(settings)
    return Command(Source(PLACE, settings, parsed.spellings), frozenset(actions))


def read_flags(words: deque[str], spellings: Mapping[str, str]) -> Iterator[tuple[str, Flag, list[str]]]:
    """The flags with their spellings and values, from left to right; uses up `words`. Raises BadSetting."""
    while words:
        word = words.popleft()
        if not is_flag(word):
            yield MODEL, Flag(MODEL), [word]
            continue
        if OPTIMIZATION_LEVEL.fullmatch(word):
            word = f"{word[:2]}={word[2:]}"
        spelled, equals, value = word.partition("=")
        short, dot, key = spelled.partition(".")
        flag = look_up(spellings.get(short, short) + dot + key)
        if flag is None:
            raise BadSetting(describe_unknown(spelled, SUGGESTED_FLAGS, "flag") + "; --help lists them all")
        if flag.is_off and equals:
            raise BadSetting(f"{spelled} takes no value")
        yield spelled, flag, [value] if equals else take_values(flag, spelled, words)


def take_values(flag: Flag, spelled: str, words: deque[str]) -> list[str]:
    """Take the values of a flag off `words`, which follow it. Raises BadSetting if one is missing."""
    row = UNSUPPORTED.get(flag.name)
    if flag.is_off:
        return ["false"]
    if flag.name in ACTIONS or (is_switch(kind(flag.name)) and not flag.key):
        is_value = bool(words) and words[0].lower() in (*BOOLEANS, *(row.accepted if row else ()))
        return [words.popleft() if is_value else "true"]
    values: list[str] = []
    while words and not is_flag(words[0]) and (not values or takes_several(flag.name)):
        values.append(words.popleft())
    if not values:
        alias = ALIASES.get(flag.name)
        rule = (alias and alias.rule) or describe(kind(flag.name))
        raise BadSetting(f"{spelled} needs a value: {rule}")
    return values


def look_up(flag: str) -> Flag | None:
    """What a long flag stands for, with hyphens or underscores; None if it is unknown."""
    if not flag.startswith("--") or flag != flag.lower():
        return None
    if flag in ACTIONS:
        return Flag(flag)
    name = flag[2:].replace("-", "_").upper()
    if name in FLAG_NAMES:
        return Flag(name)
    for inverse in inverses_of(name):
        if inverse in FLAG_NAMES and is_switch(kind(inverse)):
            return Flag(inverse, is_off=True)
    name, _, key = name.partition(".")
    return Flag(name, key=key.lower()) if key and name in FLAG_NAMES else None


def inverses_of(name: str) -> Iterator[str]:
    """The names of switches that a flag named `name` would switch off."""
    for prefix, opposite in (("NO_", ""), ("DISABLE_", "ENABLE_"), ("ENABLE_", "DISABLE_")):
        if name.startswith(prefix):
            yield opposite + name.removeprefix(prefix)


def is_flag(word: str) -> bool:
    """Whether a word is a flag; a number below zero is not."""
    return len(word) > 1 and word[0] == "-" and not (word[1].isdigit() or word[1] == ".")


def with_key(value: Any, keys: list[str], text: str) -> dict[str, Any]:
    """The JSON object `value` with the text at keys[0][keys[1]]…, as JSON if it is some."""
    values = value if isinstance(value, dict) else {}
    first, *rest = keys
    if rest:
        return values | {first: with_key(values.get(first), rest, text)}
    try:
        return values | {first: json.loads(text)}
    except ValueError:
        return values | {first: text}


def join(value: str | list[str] | dict[str, Any]) -> str:
    """The value as one text: a list with commas, an object as JSON."""
    if isinstance(value, dict):
        return json.dumps(value)
    return ",".join(value) if isinstance(value, list) else value


def with_gguf_file(settings: dict[str, str]) -> dict[str, str]:
    """The settings with a model such as acme/tiny:Q4_K_M split into the repository and the file."""
    for name in (MODEL, "HF_REPO"):
        if match := REPO_AND_FILE.fullmatch(settings.get(name, "")):
            return {"HF_FILE": match[2]} | settings | {name: match[1]}
    return settings


def with_quantized_precision(settings: dict[str, str]) -> dict[str, str]:
    """The settings with a Neodim --precision such as int8 as a value of QUANTIZE."""
    quantize = QUANTIZED_PRECISIONS.get(settings.get("PRECISION", ""))
    if quantize is None or "QUANTIZE" in settings:
        return settings
    return {name: value for name, value in settings.items() if name != "PRECISION"} | {"QUANTIZE": quantize}


def with_one_cache_type(settings: dict[str, str]) -> dict[str, str]:
    """The settings without llama.cpp's type of values if it is that of keys: here both have one dtype."""
    if settings.get("CACHE_TYPE_K") != settings.get("CACHE_TYPE_V"):
        return settings
    return {name: value for name, value in settings.items() if name != "CACHE_TYPE_V"}


def without_own_tokenizer(settings: dict[str, str]) -> dict[str, str]:
    """The settings without a --tokenizer that is the model itself, whose tokenizer is used anyway."""
    models = [settings.get(name) for name in (MODEL, "MODEL_ID", "MODEL_NAME")]
    return {name: value for name, value in settings.items() if name != "TOKENIZER" or value not in models}


def with_scaled_adapters(settings: dict[str, str]) -> dict[str, str]:
    """The settings with the adapters of llama.cpp's --lora, then those of its --lora-scaled, in one list."""
    if not {"LORA", "LORA_SCALED"} <= settings.keys():
        return settings
    rest = {name: value for name, value in settings.items() if name not in ("LORA", "LORA_SCALED")}
    try:
        scaled = to_scaled_adapters(settings["LORA_SCALED"])
    except ValueError:  # reading the settings refuses it
        return rest | {"LORA_SCALED": settings["LORA_SCALED"]}
    return rest | {"LORA": ",".join((settings["LORA"], *scaled))}


def with_entry(settings: dict[str, str]) -> dict[str, str]:
    """The settings with h2oGPT's flags about the model of --inference-server as an entry of MODELS."""
    values = {key: settings[name] for name, key in OF_ENTRY.items() if name in settings}
    server = settings.get("INFERENCE_SERVER")
    if not values or not server:
        return settings
    name = next((settings[each] for each in (MODEL, "BASE_MODEL", "MODEL_NAME") if each in settings), "")
    rest = {name: value for name, value in settings.items() if name not in (*OF_ENTRY, "INFERENCE_SERVER")}
    context = settings.get("MAX_SEQ_LEN") or settings.get("CONTEXT", "")
    context_of_entry = int(context) if context.isdecimal() else None
    entry = {"base_model": name, "inference_server": server, "max_seq_len": context_of_entry, **values}
    return rest | {"MODELS": json.dumps(entry)}


REWRITES = (
    *(without_own_tokenizer, with_gguf_file, with_quantized_precision),
    *(with_one_cache_type, with_scaled_adapters, with_entry),
)


def takes_several(name: str) -> bool:
    return any(name in table and table[name].takes_several for table in (ALIASES, UNSUPPORTED))


def kind(name: str) -> Any:
    """The type of the values of a setting, an alias or a flag of another server."""
    if name in ALIASES:
        return bool if ALIASES[name].is_switch else TYPES[ALIASES[name].setting]
    if name in UNSUPPORTED:
        return bool if UNSUPPORTED[name].is_switch else str
    return TYPES.get(name, bool)


def parse_action(flag: str, value: str) -> bool:
    try:
        return parse_bool(value)
    except ValueError:
        raise BadSetting(f"{flag} takes no value but true or false, not {value!r}") from None
