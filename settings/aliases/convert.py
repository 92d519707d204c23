"""Converts values of other servers' flags to values of this server's settings. Raises ValueError."""

import json
import re
from collections.abc import Mapping
from decimal import Decimal
from pathlib import Path
from typing import Any

from settings.schema import AT_LOAD
from settings.value_types import PositiveInt, parse, parse_bool

MAX_SPECULATE = 16
DRAFT_METHOD = "draft_model"  # of vLLM's --speculative-config
LOG_LEVELS = {"trace": "debug", "debug": "debug", "info": "info", "warn": "warning", "warning": "warning"}
LOG_LEVELS |= {"error": "error", "critical": "error", "off": "error"}
PRECISIONS = {"original": "stored", "float32": "float32", "float16": "float16"}
# Neodim's --precision also names quantizations; its gptq… are formats of the files.
QUANTIZED_PRECISIONS = {"int8": "int8", "int4": "int4"} | {f"gptq{bits}": "gptq" for bits in (2, 3, 4, 8)}
DTYPES = {"half": "float16", "float": "float32", "fp16": "float16", "bf16": "bfloat16", "fp32": "float32"}
# TGI's methods that quantize weights at load, and the value of QUANTIZE with the same number of bits.
QUANTIZE_VALUES = {"bitsandbytes": "int8", "eetq": "int8", "fp8": "int8"}
QUANTIZE_VALUES |= {"bitsandbytes-nf4": "int4", "bitsandbytes-fp4": "int4"}
QUANTIZE_VALUES |= {value: value for value in (*AT_LOAD, "awq", "gptq")}
# vLLM's; its bitsandbytes has four bits.
QUANTIZATION_VALUES = {"bitsandbytes": "int4", "fp8": "int8"} | {value: value for value in AT_LOAD}
QUANTIZATION_VALUES |= {"awq": "awq", "awq_marlin": "awq", "gptq": "gptq", "gptq_marlin": "gptq"}
# TGI's and vLLM's dtypes of the KV cache with 8 bits, and llama.cpp's.
FP8_CACHES = ("fp8", "fp8_e4m3", "fp8_e4m3fn", "fp8_e5m2", "fp8_inc", "fp8_per_token_head")
KV_CACHE_DTYPES = dict.fromkeys((*FP8_CACHES, "int8", "int8_per_token_head"), "int8")
CACHE_TYPES = {"q8_0": "int8"}
FORMER_RUNNERS = {"packed": "paged", "slots": "contiguous", "solo": "uncached"}
RUNNERS = FORMER_RUNNERS | {"generate": "auto"}  # vLLM's --runner names the task
# vLLM's parsers of tool calls, and the value of TOOL_FORMAT for the same format.
TOOL_FORMATS = {"hermes": "hermes", "mistral": "mistral", "llama3_json": "llama", "llama4_json": "llama"}
TOOL_FORMATS |= {"pythonic": "python", "llama4_pythonic": "python", "llama": "llama", "python": "python"}
# llama.cpp's; its deepseek-legacy has the reasoning in the text too.
REASONING_FORMATS = {"deepseek": "auto", "deepseek-legacy": "none"}
UNITS = {"k": 10**3, "m": 10**6, "g": 10**9, "K": 2**10, "M": 2**20, "G": 2**30}
COUNT = re.compile(r"(?P<number>\d+(\.\d+)?)(?P<unit>[kmgKMG]?)")
CUDA_DEVICES = re.compile(r"cuda:?\d+(,cuda:?\d+)*", re.IGNORECASE)
ALL_LAYERS = 99  # the customary -ngl for all layers; no model that needs splitting is told so many


def bytes_to_megabytes(count: Any) -> float:
    return float(parse(PositiveInt, count)) / 1e6


def bytes_to_gigabytes(count: Any) -> float:
    return to_count(count) / 1e9


def to_count(value: Any) -> int:
    """A whole number, also with a unit as in 32k (1000) or 32K (1024); 0 for "auto" and -1."""
    text = str(value).strip()
    if text.lower() in ("auto", "-1"):
        return 0
    match = COUNT.fullmatch(text)
    if match is None:
        raise ValueError
    count = Decimal(match["number"]) * UNITS.get(match["unit"], 1)
    if count != int(count):
        raise ValueError
    return int(count)


def negative_to_zero(value: Any) -> Any:
    """0 for llama.cpp's -1 and -2, which leave the choice to the server."""
    return 0 if str(value).strip() in ("-1", "-2") else value


def sharded_to_num_shard(sharded: Any) -> int:
    """NUM_SHARD for TGI's --sharded: 0, a shard per GPU, for true; 1 for false."""
    return 0 if parse_bool(sharded) else 1


def precision_to_dtype(value: Any) -> str:
    if value not in PRECISIONS:
        raise ValueError
    return PRECISIONS[value]


def to_dtype(value: Any) -> Any:
    return DTYPES.get(value, value) if isinstance(value, str) else value


def to_device(value: Any) -> Any:
    """cpu for llama.cpp's "none", cuda for a list of its GPUs; other values unchanged."""
    if not isinstance(value, str):
        return value
    return "cpu" if value.lower() == "none" else "cuda" if CUDA_DEVICES.fullmatch(value) else value


def to_layers(value: Any) -> str:
    """LAYERS for llama.cpp's -ngl: empty, all layers on DEVICE, for -1, all, auto and 99 or more."""
    text = str(value).strip().lower()
    if text in ("-1", "all", "auto"):
        return ""
    count = int(text)
    if count < 0:
        raise ValueError
    return "" if count >= ALL_LAYERS else str(count)


def to_quantize(value: Any) -> str:
    """A value of QUANTIZE; "none" for a method that UNSUPPORTED accepts without effect."""
    return QUANTIZE_VALUES.get(str(value).lower(), "none")


def quantization_to_quantize(value: Any) -> str:
    """A value of QUANTIZE; "none" for the formats of weights that are quantized in their files."""
    return QUANTIZATION_VALUES.get(str(value).lower(), "none")


def to_kv_dtype(value: Any) -> str:
    """A value of KV_DTYPE; "auto" for a dtype that UNSUPPORTED accepts without effect."""
    return (KV_CACHE_DTYPES | CACHE_TYPES).get(str(value).lower(), "auto")


def to_runner(value: Any) -> Any:
    """The current name of a runner; other values are returned unchanged."""
    return RUNNERS.get(value, value) if isinstance(value, str) else value


def to_tool_format(value: Any) -> str:
    """A value of TOOL_FORMAT; "auto" for a parser that UNSUPPORTED accepts without effect."""
    return TOOL_FORMATS.get(str(value).lower(), "auto")


def to_reasoning_format(value: Any) -> Any:
    """A value of REASONING_FORMAT; other values are returned unchanged."""
    return REASONING_FORMATS.get(value, value) if isinstance(value, str) else value


def to_log_level(value: Any) -> str:
    """The level for all modules in a filter such as "info,router=debug", in any case. Raises ValueError."""
    directives = [directive.strip().lower() for directive in str(value).split(",")]
    log_level = next((LOG_LEVELS[directive] for directive in directives if directive in LOG_LEVELS), None)
    if log_level is None:
        raise ValueError
    return log_level


def verbose_to_log_level(value: Any) -> str:
    return "debug" if parse_bool(value) else "info"


def json_to_list(value: Any) -> Any:
    """The items of a JSON list such as '["*"]'; other values are returned unchanged."""
    return json.loads(value) if isinstance(value, str) and value.lstrip().startswith("[") else value


def to_max_drafts(value: Any) -> int:
    """SPECULATE for llama.cpp's --draft-max, which has no limit. Raises ValueError."""
    return min(MAX_SPECULATE, int(value))


def config_to_speculate(config: Any) -> int:
    """SPECULATE for vLLM's --speculative-config; 0 for methods that this server lacks: no answer changes."""
    values = json.loads(config)
    return parse(PositiveInt, values["num_speculative_tokens"]) if is_known_speculation(config) else 0


def config_to_draft_model(config: Any) -> str:
    """DRAFT_MODEL for vLLM's --speculative-config; empty for n-grams and methods that this server lacks."""
    values = json.loads(config)
    return str(values["model"]) if is_known_speculation(config) and not is_ngram(values) else ""


def is_known_speculation(config: str) -> bool:
    """Whether vLLM's --speculative-config selects n-grams or a draft model, and says how many tokens."""
    try:
        values = json.loads(config)
    except ValueError:
        return False
    if not isinstance(values, dict) or "num_speculative_tokens" not in values:
        return False
    names_model = values.get("method", DRAFT_METHOD) == DRAFT_METHOD and isinstance(values.get("model"), str)
    return is_ngram(values) or names_model


def is_ngram(values: Mapping[str, Any]) -> bool:
    return values.get("method") == "ngram" or values.get("model") in ("ngram", "[ngram]")


def read_lines(path: Any) -> tuple[str, ...]:
    """The lines of a file that are not empty."""
    try:
        lines = [line.strip() for line in Path(path).expanduser().read_text("utf-8").splitlines()]
    except OSError:
        raise ValueError from None
    if not any(lines):
        raise ValueError
    return tuple(line for line in lines if line)
