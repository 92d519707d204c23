"""The config of a GGUF file, as transformers derives it from the header.

transformers reads every word of a vocabulary for it, which takes seconds: it gets a stub file with the
metadata and the tensor table, but without the vocabulary.
"""

import math
import os
import struct
import tempfile
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from transformers import CONFIG_MAPPING, AutoConfig, PreTrainedConfig

from inference.model.load.gguf.config.config_keys import add_missing_keys
from inference.model.load.gguf.config.fields import fields_of
from inference.model.load.gguf.config.rope import SCALING, apply_rope_dimensions, apply_rope_scaling
from inference.model.load.gguf.config.rope_factors import apply_rope_factors
from inference.model.load.gguf.config.t5_mlp import apply_mlp
from inference.model.load.gguf.config.tensor_config import apply_biases
from inference.model.load.gguf.file.cursor import NotGguf, pack_string
from inference.model.load.gguf.file.header import TOKENS, GgufHeader, GgufTensor, header_start
from inference.model.load.gguf.file.setting import UINT32
from inference.model.load.gguf.file.shards import Bytes, merged_header, read_files

OUTPUT_TENSOR = GgufTensor("output.weight", (1,), 0, 0)  # the output head; absent if tied to the embeddings
# Architectures whose config gets its vocab_size from the length of the vocabulary (transformers'
# gguf_config_mapping.py), which the stub has in place of it.
COUNTED_VOCABULARY = ("lfm2", "qwen35", "qwen35moe")
STUB_FILE = "stand-in.gguf"


def read_gguf_config(source: Path) -> Any:
    """The config of a GGUF file, or of the model whose first shard it is.

    Raises NotGguf, OSError, and what transformers raises for an architecture that it does not know.
    """
    files = read_files(source)
    header = merged_header(source, files)
    config = config_of_header(header, sum(len(file) for _, file in files))
    apply_rope_factors(config, header, partial(read_floats, files))
    config.name_or_path = str(source.parent)
    return config


def read_floats(files: Sequence[tuple[GgufHeader, Bytes]], name: str) -> list[float]:
    """The values of a tensor in float32, from the shard that has it."""
    header, file, tensor = next(
        (header, file, tensor)
        for header, file in files
        for tensor in header.tensors or ()
        if tensor.name == name
    )
    start = header.data_offset + tensor.offset
    return np.frombuffer(file, np.float32, math.prod(tensor.shape), start).tolist()


def config_of_header(header: GgufHeader, size: int) -> Any:
    """The config of a GGUF file of `size` bytes. Raises what transformers raises for a header."""
    add_missing_keys()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / STUB_FILE
        path.write_bytes(stub_file_bytes(header))
        os.truncate(path, size)  # a sparse file: takes no disk space
        raw, _ = PreTrainedConfig.get_config_dict(folder, gguf_file=STUB_FILE)
    raw |= fields_of(header)
    if raw["model_type"] not in CONFIG_MAPPING:
        raise NotGguf(f"a GGUF file of the architecture {header.architecture!r}, which transformers lacks")
    config = AutoConfig.for_model(**raw)
    apply_rope_dimensions(config, header)
    apply_rope_scaling(config, header)
    apply_mlp(config, header)
    apply_biases(config, header)
    return config


def stub_file_bytes(header: GgufHeader) -> bytes:
    """The bytes of the header, with the length of the vocabulary instead of the vocabulary.

    Without the scaling of positions, which rope.py reads.
    """
    settings = {name: setting for name, setting in header.metadata.items() if SCALING not in name}
    vocab_size_key = f"{header.architecture}.vocab_size"
    if header.vocab_size:
        settings.setdefault(vocab_size_key, pack_uint32(vocab_size_key, header.vocab_size))
    if header.vocab_size and header.architecture in COUNTED_VOCABULARY:
        settings[TOKENS] = pack_uint32(TOKENS, header.vocab_size)
    tensors = [OUTPUT_TENSOR] if header.tensors is None else header.tensors
    table = b"".join(tensor.pack() for tensor in tensors)
    return header_start(len(tensors), len(settings)) + b"".join(settings.values()) + table


def pack_uint32(name: str, value: int) -> bytes:
    return pack_string(name) + struct.pack("<II", UINT32, value)
