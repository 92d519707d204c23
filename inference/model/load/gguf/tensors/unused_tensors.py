"""Tensors of a GGUF file that no parameter of its model takes: without them a model answers, and wrongly.

transformers skips them without a word; llama.cpp loads no file that has one (src/llama-model-loader.cpp,
done_getting_tensors).
"""

import re
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from typing import Any

import numpy as np

from inference.finding import format_count
from inference.model.load.gguf.config.rope_factors import FACTORS
from inference.model.load.gguf.file.cursor import NotGguf
from inference.model.load.gguf.file.header import GgufHeader, GgufTensor
from inference.model.load.gguf.tensors.processors import map_known_names

# A model computes the same without these: factors of positions are in its config, frequencies follow from
# it, heads that predict further tokens are not served, and T5 has no positions in its cross-attention.
HARMLESS = re.compile(
    rf"{FACTORS.pattern}"
    r"|blk\.\d+\.attn_rot_embd(\.weight)?"
    r"|blk\.\d+\.nextn\..+"
    r"|dec\.blk\.\d+\.cross_attn_rel_b\.weight"
)


def check_all_used(header: GgufHeader, model: Any) -> None:
    """Raise NotGguf if the file has a tensor that no parameter takes. model: on the meta device."""
    if names := unused_tensors(header, model):
        raise NotGguf(f"a GGUF file with {describe_unused(names)}")


def describe_unused(names: Sequence[str]) -> str:
    return f"{format_count(len(names), 'tensor')} that the model would ignore, such as {names[0]}"


def unused_tensors(header: GgufHeader, model: Any) -> tuple[str, ...]:
    """Names of the tensors that no parameter takes, without those that change nothing.

    model: on the meta device. Empty for a model whose tensors transformers does not name.
    """
    processor, names = map_known_names(header.architecture, model)
    if not names:
        return ()
    parameters = model.state_dict().keys()
    return tuple(
        tensor.name
        for tensor in header.tensors or ()
        if tensor.name not in names
        and not HARMLESS.fullmatch(tensor.name)
        and not is_placed(processor, tensor, names, parameters)
    )


def is_placed(
    processor: Any, tensor: GgufTensor, names: Mapping[str, str], parameters: Collection[str]
) -> bool:
    """Whether a processor renames the tensor to a known one, or puts it into a parameter itself.

    It gets a tensor of the same dimensions, whose rows have a single value.
    """
    shape = (*tensor.shape[:0:-1], 1) if len(tensor.shape) > 1 else tensor.shape
    placed: dict[str, Any] = {}
    with suppress(KeyError, ValueError):  # for a name that is not in the table, or a width
        result = processor.process(
            weights=np.zeros(shape, np.float32),
            name=tensor.name,
            tensor_key_mapping=names,
            parsed_parameters={"tensors": placed},
        )
        return result.name in names or any(name in parameters for name in placed)
    return False
