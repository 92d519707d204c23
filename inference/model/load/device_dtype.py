"""Chooses a model's device, dtype, context and KV memory.

Pure functions of their arguments, apart from a few that read this machine's hardware or limit its GPUs.
"""

from typing import Any

import torch

from inference.native.cpu_levels import multiplies_bfloat16

SMALL_MODEL_PARAMETERS = 100_000_000  # parameters below which "auto" means float32
DTYPES = ("float32", "bfloat16", "float16")
# The share of the free memory for the KV cache. The server has a GPU to itself, but not the RAM.
KV_MEMORY_FRACTION = {"cpu": 0.5, "cuda": 0.9}
DEFAULT_CONTEXT = 4096  # tokens of context for a model that sets no limit

# Config keys for the longest sequence that an architecture was made for.
LENGTH_KEYS = (
    "max_position_embeddings",
    "n_positions",
    "max_sequence_length",
    "max_seq_len",
    "seq_length",
    "n_ctx",
    "max_target_positions",
)
# Model types with relative positions or recurrent states: the length in their config is no limit.
UNBOUNDED = frozenset(
    {
        "bloom",
        "mpt",
        "t5",
        "mt5",
        "umt5",
        "mamba",
        "mamba2",
        "falcon_mamba",
        "recurrent_gemma",
        "rwkv",
        "xlstm",
    }
)
# Model types whose first position is pad_token_id + 1.
POSITIONS_AFTER_PAD = frozenset(
    {
        "camembert",
        "data2vec-text",
        "roberta",
        "roberta-prelayernorm",
        "xlm-roberta",
        "xlm-roberta-xl",
        "xmod",
    }
)


def resolve_device(device: str) -> str:
    """The device for "auto": "cuda" if torch sees a GPU, else "cpu".

    checks/execution/device.py refuses "auto" on a machine with a GPU that torch cannot use.
    """
    if device != "auto":
        return device
    return "cuda" if torch.cuda.is_available() else "cpu"


def resolve_dtype(dtype: str, *, device: str, stored: str, parameters: int, bfloat16: bool) -> str:
    """The dtype for "auto", and for "stored": the dtype of the weight files.

    Small models compute in float32: it is fast enough for them, and their greedy completions are the same
    alone and in a batch. Larger models use 16 bits if the hardware supports them, as stored if possible.

    stored      dtype of the weight files
    parameters  number of parameters
    bfloat16    whether bfloat16 is worth its use, see serves_bfloat16 and has_bfloat16
    """
    if dtype == "stored":
        return stored if stored in DTYPES else "float32"
    if dtype != "auto":
        return dtype
    if parameters < SMALL_MODEL_PARAMETERS or (device == "cpu" and not bfloat16):
        return "float32"
    if device == "cuda" and (stored == "float16" or not bfloat16):
        return "float16"
    return "bfloat16"


def limit_gpu(share: float) -> None:
    """Limit torch to this fraction of each GPU's memory."""
    for number in range(torch.cuda.device_count()):
        torch.cuda.set_per_process_memory_fraction(share, number)


def serves_bfloat16(device: str) -> bool:
    """Whether a model is served faster in bfloat16 than in float32.

    On every CPU it is: where products of bfloat16 are lacking, native code widens the weights in registers,
    and half the bytes are read from memory.
    """
    return device == "cpu" or has_bfloat16(device)


def has_bfloat16(device: str) -> bool:
    """Whether the hardware multiplies bfloat16 natively; torch's emulation is slower than float32."""
    if device == "cuda":
        return torch.cuda.get_device_capability() >= (8, 0)
    return multiplies_bfloat16()


def max_length_of(config: Any) -> int | None:
    """The longest sequence in tokens that the model can process; None if unlimited."""
    return None if config.model_type in UNBOUNDED else config_length(config)


def default_context(config: Any) -> int:
    """The default context in tokens."""
    return config_length(config) or DEFAULT_CONTEXT


def config_length(config: Any) -> int | None:
    """The maximum length in the config or in its nested text config; None if neither has one."""
    configs = (config.get_text_config(), config)
    lengths = (getattr(each, name, None) for each in configs for name in LENGTH_KEYS)
    length = next((length for length in lengths if isinstance(length, int) and length > 0), None)
    if length and config.model_type in POSITIONS_AFTER_PAD:
        return length - (config.pad_token_id or 0) - 1
    return length


def default_kv_memory(free: int, device: str, useful: int | None) -> int:
    """Bytes for the KV cache: a share of the bytes that the weights leave free, at most `useful`."""
    share = int(free * KV_MEMORY_FRACTION[device])
    return share if useful is None else min(share, useful)
