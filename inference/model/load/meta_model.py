"""Builds a model without weights on torch's meta device, and loads it from tensors that have only shapes.

Knows transformers' auto classes and its loader, which decides which weights stay in float32, merges weights
that files store separately, and reports missing ones; here it reads no data. Knows no architecture.
"""

import warnings
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor
from transformers import AutoConfig

from inference.model.load.architecture import auto_class_of
from inference.model.load.silence import silence_transformers
from inference.process.imports.deferred_torch import register_common_kernels, with_meta_kernels

META_DEVICE_MAP = {"": "meta"}


@dataclass(frozen=True, slots=True)
class MetaLoadResult:
    """The loaded model, on the meta device, and the loader's report.

    missing_weights     weights that the files lack
    mismatched_weights  weights of another shape: name, shape in the files, shape in the model
    load_copy_bytes     bytes of the weights that differ from the files' tensors: converted or merged
    """

    model: Any
    missing_weights: tuple[str, ...] = ()
    mismatched_weights: tuple[tuple[str, tuple[int, ...], tuple[int, ...]], ...] = ()
    load_copy_bytes: int = 0


def try_build_on_meta(raw_config: Mapping[str, Any]) -> Any:
    """The model of a config.json; None if transformers cannot build it from that alone."""
    try:
        return build_on_meta(raw_config)
    except Exception:  # an architecture's own failure
        return None


def build_on_meta(raw_config: Mapping[str, Any]) -> Any:
    """Build the model of a config.json in float32 on the meta device.

    Raises ValueError if a weight would be empty, and whatever the architecture raises.
    """
    register_common_kernels()
    config = AutoConfig.for_model(**raw_config)
    with torch.device("meta"), warnings.catch_warnings(action="ignore"):
        from_config = partial(auto_class_of(config).from_config, config, dtype=torch.float32)
        model = with_meta_kernels(from_config, Exception).eval()
    if empty_weight := next((name for name, weight in model.named_parameters() if not weight.numel()), ""):
        raise ValueError(f"{empty_weight} would be empty")
    return model


def load_on_meta(
    model: Any, dtype: str, tensors: Mapping[str, Tensor] | None = None
) -> MetaLoadResult | None:
    """Load the model in `dtype` from the tensors of a checkpoint, which need no values.

    tensors  state dict of the checkpoint; None: as the model itself would save it
    Returns None if transformers cannot load it this way.
    """
    state = model.state_dict() if tensors is None else dict(tensors)
    try:
        with silence_transformers():
            from_pretrained = partial(
                type(model).from_pretrained,
                None,
                config=model.config,
                state_dict=state,
                dtype=getattr(torch, dtype),
                device_map=META_DEVICE_MAP,
                ignore_mismatched_sizes=True,
                output_loading_info=True,
            )
            loaded_model, report = with_meta_kernels(from_pretrained, Exception)
            # transformers ties weights stored twice only if their values are equal; meta tensors have none.
            loaded_model.tie_weights()
    except Exception:  # an architecture's own failure
        return None
    mismatched_weights = tuple(
        sorted((name, tuple(file), tuple(own)) for name, file, own in report["mismatched_keys"])
    )
    return MetaLoadResult(
        loaded_model.eval(),
        tuple(sorted(report["missing_keys"])),
        mismatched_weights,
        count_copied_bytes(loaded_model, state.values()),
    )


def count_copied_bytes(model: Any, tensors: Iterable[Tensor]) -> int:
    """Bytes of the model's weights that share no storage with the tensors."""
    files = {tensor.untyped_storage()._cdata for tensor in tensors}
    return nbytes(weight for weight in model.parameters() if weight.untyped_storage()._cdata not in files)


def count_parameters(model: Any) -> int:
    return sum(weight.numel() for weight in model.parameters())  # tied weights are listed once


def nbytes(tensors: Iterable[Tensor]) -> int:
    """Bytes of the tensors, each counted once."""
    return sum(tensor.nbytes for tensor in {id(tensor): tensor for tensor in tensors}.values())


def weight_bytes_by_module(model: Any, names: Iterable[str]) -> Iterator[int]:
    """The bytes of each module's weights; a shared weight counts for the first module that has it."""
    counted: set[int] = set()
    for name in names:
        weights = {id(weight): weight for weight in model.get_submodule(name).parameters()}
        yield nbytes(weights[key] for key in weights.keys() - counted)
        counted |= weights.keys()


def has_tied_embeddings(raw_config: Mapping[str, Any], num_elements: int) -> bool:
    """Whether the output layer shares the embeddings, judged by the number of elements in the files.

    False also where the number matches neither case: files may hold additional small tables, such as rotary
    frequencies, but never another matrix.
    """
    model = try_build_on_meta({**raw_config, "tie_word_embeddings": True})
    head = model and model.get_output_embeddings()
    if head is None or head.weight is not model.get_input_embeddings().weight:
        return False
    return bool(abs(num_elements - count_parameters(model)) < head.weight.numel() // 2)
