"""Where a model goes and in what form: device, dtype, context, and the memory left for its KV.

Pure choices from facts; the facts about this machine's GPUs are asked of torch here.
"""

from typing import Any

import torch

from inference.native.processor import processor_features

SMALL = 100_000_000  # parameters
DTYPES = ("float32", "bfloat16", "float16")
# Of the memory that a model leaves free. A GPU is the server's alone; RAM is not.
SHARES = {"cpu": 0.5, "cuda": 0.9}
OPEN_ENDED = 4096  # tokens of context for a model that sets no limit

# Names that architectures give to the longest sequence they were made for.
LENGTHS = (
    "max_position_embeddings",
    "n_positions",
    "max_sequence_length",
    "max_seq_len",
    "seq_length",
    "n_ctx",
    "max_target_positions",
)
# These take their order from relative distances or a state: what their config says is no bound.
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
# These begin to count positions behind the padding's index.
BEHIND_PADDING = frozenset(
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


def device_of(asked: str) -> str:
    """ "cpu" or "cuda" for "auto": the GPU where torch sees one."""
    if asked != "auto":
        return asked
    return "cuda" if torch.cuda.is_available() else "cpu"


def dtype_of(asked: str, *, device: str, stored: str, parameters: int, bfloat16: bool) -> str:
    """The dtype for "auto", and for "stored": the one that the weights' files are in.

    Small models compute in float32: it is fast enough there, and greedy answers come out the same alone and
    in a batch. Larger ones use 16 bits where the hardware has them, in the form they are stored in if it can.
    """
    if asked == "stored":
        return stored if stored in DTYPES else "float32"
    if asked != "auto":
        return asked
    if parameters < SMALL or (device == "cpu" and not bfloat16):
        return "float32"
    if device == "cuda" and (stored == "float16" or not bfloat16):
        return "float16"
    return "bfloat16"


def limit_gpu(share: float) -> None:
    """Have torch refuse to take more than this share of each GPU's memory."""
    for number in range(torch.cuda.device_count()):
        torch.cuda.set_per_process_memory_fraction(share, number)


def has_bfloat16(device: str) -> bool:
    """Whether the hardware multiplies bfloat16 itself; emulation is slower than float32."""
    if device == "cuda":
        return torch.cuda.get_device_capability() >= (8, 0)
    return bool(processor_features() & {"avx512_bf16", "amx_bf16", "bf16"})


def limit_of(config: Any) -> int | None:
    """The longest sequence the model can take; None where nothing bounds it."""
    return None if config.model_type in UNBOUNDED else length_of(config)


def context_of(config: Any) -> int:
    """The context to offer when none is asked for."""
    return length_of(config) or OPEN_ENDED


def length_of(config: Any) -> int | None:
    """The length in the model's config, if it names one. `config` may hold the text model's within it."""
    parts = (config.get_text_config(), config)
    lengths = (getattr(part, name, None) for part in parts for name in LENGTHS)
    length = next((length for length in lengths if isinstance(length, int) and length > 0), None)
    if length and config.model_type in BEHIND_PADDING:
        return length - (config.pad_token_id or 0) - 1
    return length


def kv_bytes(free: int, device: str, useful: int | None) -> int:
    """Bytes for the tokens of running answers, out of what the weights leave free; no more than is useful."""
    share = int(free * SHARES[device])
    return share if useful is None else min(share, useful)
