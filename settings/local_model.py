"""An entry of MODELS for a model on this machine."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from settings.duration import Duration, parse_duration
from settings.entry_values import BadEntry, parse_names, parse_object, parse_switch

# The settings that each model may have for itself: how it is found, loaded and run, and how it answers.
OWN_SETTINGS = frozenset(
    {
        "MODEL_REVISION",
        "TRUST_REMOTE_CODE",
        "GGUF_FILE",
        "ALLOW_PICKLE",
        "TOKENIZER_CONFIG_PATH",
        "CHAT_TEMPLATE",
        "ROPE_SCALING",
        "ROPE_FACTOR",
        "LORA_ADAPTERS",
        "MAX_LORA_RANK",
        "MAX_LORAS",
        "MAX_ANSWER_TOKENS",
        "DEFAULT_SEED",
        "TOOL_FORMAT",
        "REASONING_FORMAT",
        "DISABLE_GRAMMAR_SUPPORT",
        "MAX_INPUT_TOKENS",
        "SPECIAL_TOKENS_IN",
        "DEVICE",
        "LAYERS",
        "NUM_SHARD",
        "DTYPE",
        "QUANTIZE",
        "IMATRIX",
        "CONTEXT",
        "MAX_SEQUENCES",
        "KV_MEMORY_GB",
        "KV_DTYPE",
        "MAX_BATCH_TOTAL_TOKENS",
        "CUDA_MEMORY_FRACTION",
        "MAX_BATCH_TOKENS",
        "PREFIX_CACHING",
        "SPECULATE",
        "DRAFT_MODEL",
        "RUNNER",
        "DETERMINISTIC",
        "MAX_QUEUED_TOKENS",
        "WAITING_SERVED_RATIO",
        "MAX_WAITING_TOKENS",
        "THREADS",
    }
)
# Keys of an entry that are only for models on other servers.
REMOTE_KEYS = frozenset(
    {
        "key",
        "h2ogpt_key",
        "headers",
        "drop",
        "extra",
        "max_concurrent",
        "timeouts",
        "ca",
        "proxy",
        "prompt_dict",
        "tokenizer_base_model",
        "chat_template",
    }
)


@dataclass(frozen=True, slots=True)
class LocalModel:
    """A model on this machine.

    name        the name that requests use
    base_model  the name or folder that MODEL_NAME would have
    aliases     further names that requests may use
    settings    settings of config.py that count for this model alone, by name
    keep_alive  seconds in memory after its last answer; None: KEEP_ALIVE
    is_pinned   loaded at the start, and never unloaded to make room
    """

    name: str
    base_model: str
    aliases: tuple[str, ...] = ()
    settings: Mapping[str, Any] = field(default_factory=dict)
    keep_alive: Duration | None = None
    is_pinned: bool = False


def parse_local(where: str, entry: Mapping[str, Any]) -> LocalModel:
    """The model of an entry without inference_server. Raises BadEntry."""
    for key in entry:
        if key in REMOTE_KEYS:
            raise BadEntry(f"{where}: {key} is for models on other servers: put settings into `settings`")
    values = {key: parse(where, entry[key]) for key, parse in KEYS.items() if entry.get(key) is not None}
    if "pinned" in values:
        values["is_pinned"] = values.pop("pinned")
    base_model = entry["base_model"]
    return LocalModel(entry.get("display_name") or base_model, base_model, **values)


def _parse_settings(where: str, value: Any) -> Mapping[str, Any]:
    settings = {str(name).upper(): each for name, each in parse_object(where, value).items()}
    if foreign := sorted(settings.keys() - OWN_SETTINGS):
        raise BadEntry(f"{where}: settings: {foreign[0]} is no setting that a model has for itself")
    return settings


def _parse_keep_alive(where: str, value: Any) -> Duration:
    try:
        return parse_duration(value)
    except ValueError:
        rule = 'must be a duration such as "5m", or seconds; below 0: without an end'
        raise BadEntry(f"{where}: keep_alive {rule}") from None


KEYS: Mapping[str, Callable[[str, Any], Any]] = {
    "aliases": parse_names,
    "settings": _parse_settings,
    "keep_alive": _parse_keep_alive,
    "pinned": parse_switch,
}
