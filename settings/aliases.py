"""Other servers' names for settings of ours: Text Generation Inference's, Neodim's, vLLM's and the Hub's.

Each is understood as a flag, in .env and in the environment. Knows names and how their values differ.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from settings.kinds import Positive, read, switch

LEVELS = {"trace": "debug", "debug": "debug", "info": "info", "warn": "warning", "warning": "warning"}
LEVELS |= {"error": "error", "critical": "error", "off": "error"}
PRECISIONS = {"original": "stored", "float32": "float32", "float16": "float16"}
# What makes weights smaller as it loads them, and the form of ours with as many bits.
FEWER_BITS = {"bitsandbytes": "int8", "eetq": "int8", "fp8": "int8", "int8": "int8"}
FEWER_BITS |= {"bitsandbytes-nf4": "int4", "bitsandbytes-fp4": "int4", "int4": "int4"}


@dataclass(frozen=True, slots=True)
class Alias:
    """Another name for `setting`.

    convert  makes a value ours, or raises ValueError
    rule     what its values must be, where that is not what the setting's must be
    yields   it counts only where the same place has no other name of the setting
    switch   as a flag it needs no value, which is true then
    """

    setting: str
    convert: Callable[[Any], Any] = lambda value: value
    rule: str = ""
    yields: bool = False
    switch: bool = False


def megabytes(count: Any) -> float:
    return float(read(Positive, count)) / 1e6


def shards(sharded: Any) -> int:
    """One for each GPU, or none."""
    return 0 if switch(sharded) else 1


def precision(value: Any) -> str:
    if value not in PRECISIONS:
        raise ValueError
    return PRECISIONS[value]


def fewer_bits(value: Any) -> str:
    """Ours; "none" for what elsewhere.py lets pass."""
    return FEWER_BITS.get(str(value).lower(), "none")


def level(value: Any) -> str:
    """Of "info,router=debug" the part that is for everything; capitals or not."""
    parts = [part.strip().lower() for part in str(value).split(",")]
    found = next((LEVELS[part] for part in parts if part in LEVELS), None)
    if found is None:
        raise ValueError
    return found


ALIASES: Mapping[str, Alias] = {
    "MODEL": Alias("MODEL_NAME"),
    "MODEL_ID": Alias("MODEL_NAME"),
    "REVISION": Alias("MODEL_REVISION"),
    "HF_TOKEN": Alias("HUGGINGFACE_ACCESS_TOKEN", yields=True),
    "HUGGING_FACE_HUB_TOKEN": Alias("HUGGINGFACE_ACCESS_TOKEN", yields=True),
    "HF_HUB_OFFLINE": Alias("OFFLINE", yields=True),
    "WEIGHTS_CACHE_OVERRIDE": Alias("CACHE_DIR"),
    "HUGGINGFACE_HUB_CACHE": Alias("CACHE_DIR", yields=True),
    "HOSTNAME": Alias("HOST"),
    "LISTEN_ADDRESS": Alias("HOST"),
    "LISTEN_PORT": Alias("PORT"),
    "API_KEY": Alias("API_KEYS"),
    "CORS_ALLOW_ORIGIN": Alias("CORS_ORIGINS"),
    "PAYLOAD_LIMIT": Alias("MAX_BODY_MB", megabytes, "a whole number of bytes, 1000 or more"),
    "GRACEFUL_TERMINATION_TIMEOUT": Alias("DRAIN_SECONDS"),
    "LOG_LEVEL": Alias("LOG_LEVEL", level),
    "PRECISION": Alias("DTYPE", precision, "original, float32 or float16; others land with quantisation"),
    "QUANTIZE": Alias("QUANTISE", fewer_bits, f"none, {', '.join(FEWER_BITS)}"),
    "SHARDED": Alias("NUM_SHARD", shards, "true or false", yields=True, switch=True),
    "TENSOR_PARALLEL_SIZE": Alias("NUM_SHARD"),
    "MAX_INPUT_LENGTH": Alias("MAX_INPUT_TOKENS"),
    "MAX_TOTAL_TOKENS": Alias("CONTEXT"),
    "MAX_BATCH_SIZE": Alias("MAX_SEQUENCES"),
    "MAX_BATCH_PREFILL_TOKENS": Alias("MAX_BATCH_TOKENS"),
}
