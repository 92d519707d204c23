"""A model without its weights, on torch's meta device; and loaded with weights that have shapes alone.

Knows transformers' auto classes and its loader, which decides what stays in float32, joins what files keep
apart, and says what they lack: asked here with nothing to read. Knows no architecture.
"""

import warnings
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from transformers import AutoConfig

from checks.silence import silent
from inference.model.architecture import family_of

NOWHERE = {"": "meta"}


@dataclass(frozen=True, slots=True)
class Loaded:
    """missing  the weights that the files lack
    wrong    those of another shape: its name, and the shapes that the files and the model have
    copied   bytes of the weights that are not as they are in the files: converted, or put together
    """

    model: Any
    missing: tuple[str, ...] = ()
    wrong: tuple[tuple[str, tuple[int, ...], tuple[int, ...]], ...] = ()
    copied: int = 0


def skeleton(raw: Mapping[str, Any]) -> Any:
    """The model of a config.json; None where transformers cannot make it from that alone."""
    try:
        return made(raw)
    except Exception:  # an architecture's own failure
        return None


def made(raw: Mapping[str, Any]) -> Any:
    """The model of a config.json, in float32. Raises whatever its architecture does, and ValueError where a
    weight would have no values."""
    config = AutoConfig.for_model(**raw)
    with torch.device("meta"), warnings.catch_warnings(action="ignore"):
        model = family_of(config).from_config(config, dtype=torch.float32).eval()
    if empty := next((name for name, weight in model.named_parameters() if not weight.numel()), ""):
        raise ValueError(f"{empty} would have no values")
    return model


def loaded(model: Any, dtype: str, tensors: Mapping[str, Tensor] | None = None) -> Loaded | None:
    """The model as it is once it is loaded in `dtype` from tensors of a file, which need no values.

    Without tensors, from files as the model itself would write them. None where it cannot be loaded so.
    """
    state = model.state_dict() if tensors is None else dict(tensors)
    try:
        with silent():
            made, report = type(model).from_pretrained(
                None,
                config=model.config,
                state_dict=state,
                dtype=getattr(torch, dtype),
                device_map=NOWHERE,
                ignore_mismatched_sizes=True,
                output_loading_info=True,
            )
            made.tie_weights()  # what files hold twice is the same, which they do not show without values
    except Exception:  # as above
        return None
    wrong = tuple(sorted((name, tuple(file), tuple(own)) for name, file, own in report["mismatched_keys"]))
    return Loaded(made.eval(), tuple(sorted(report["missing_keys"])), wrong, copied(made, state.values()))


def copied(model: Any, tensors: Iterable[Tensor]) -> int:
    """Bytes of the weights that are none of the tensors, nor a part of one."""
    files = {tensor.untyped_storage()._cdata for tensor in tensors}
    return nbytes(weight for weight in model.parameters() if weight.untyped_storage()._cdata not in files)


def count(model: Any) -> int:
    return sum(weight.numel() for weight in model.parameters())  # tied weights come once


def nbytes(tensors: Iterable[Tensor]) -> int:
    """Of all of them, each once."""
    return sum(tensor.nbytes for tensor in {id(tensor): tensor for tensor in tensors}.values())


def held_by(model: Any, names: Iterable[str]) -> Iterator[int]:
    """The bytes of the weights in each module; those that several share are the first one's."""
    seen: set[int] = set()
    for name in names:
        weights = {id(weight): weight for weight in model.get_submodule(name).parameters()}
        yield nbytes(weights[key] for key in weights.keys() - seen)
        seen |= weights.keys()
