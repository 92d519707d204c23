"""Factors of a GGUF file's rotary frequencies: tensors, in files of Llama 3.1 and later, and of Phi 3.

llama.cpp divides each frequency by its factor (ggml_rope_ext, freq_factors); so does transformers' rope_type
`longrope`. Its two lists are equal for Llama; Phi 3 has one up to its original length, and one above.
"""

import re
from collections.abc import Callable
from typing import Any

from inference.model.load.gguf.config.rope import SCALING
from inference.model.load.gguf.file.header import GgufHeader

FACTORS = re.compile(r"rope_freqs\.weight|rope_factors_(short|long)\.weight")
SHORT, LONG, BOTH = "rope_factors_short.weight", "rope_factors_long.weight", "rope_freqs.weight"
# Architectures whose configs state these frequencies in another way.
STATED = ("gemma4",)
ORIGINAL = "original_max_position_embeddings"


def apply_rope_factors(config: Any, header: GgufHeader, read_floats: Callable[[str], list[float]]) -> None:
    """Set the rope_parameters of the config from the file's factors, if it has any.

    read_floats: the values of the tensor of that name, which are float32.
    """
    names = {tensor.name for tensor in header.tensors or ()}
    short, long = (SHORT, LONG) if SHORT in names else (BOTH, BOTH)
    parameters = getattr(config, "rope_parameters", None)
    if not {short, long} <= names or not parameters or header.architecture in STATED:
        return
    begin = f"{header.architecture}{SCALING}"
    trained = header.numbers.get(f"{begin}original_context_length", config.max_position_embeddings)
    parameters.update(
        rope_type="longrope",
        short_factor=read_floats(short),
        long_factor=read_floats(long),
        factor=1.0,
        attention_factor=header.numbers.get(f"{begin}attn_factor", 1.0),
        **{ORIGINAL: trained},
    )
    if hasattr(config, ORIGINAL):  # where a config has it itself, it comes first
        setattr(config, ORIGINAL, trained)
