"""How large a model is, asked of the model itself: built without memory, on torch's meta device, and run.

Knows transformers' auto classes and caches. A formula would have to know every architecture; this knows none.
Where a model cannot be asked (it brings its own code, or looks at values), files and config give an estimate.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import chain
from types import SimpleNamespace
from typing import Any

import torch
from transformers import AutoConfig, AutoModelForCausalLM, AutoModelForSeq2SeqLM

from checks.split import share, splits_heads
from inference.model.split.spread import stacks
from inference.model.weights.kinds import saved

PROBES = (2048, 4096)  # tokens; longer than most windows, so that the slope is what grows without end
SHORT_PROBES = (8, 16)  # for recurrent models, which go through tokens one by one and keep only a state


@dataclass(frozen=True, slots=True)
class Measure:
    """In bytes: the weights; what one more token of a sequence keeps; what a sequence keeps however short.

    layers   weights of each layer, an encoder's before its decoder's; empty where the model cannot be asked
    encoder  how many of the layers are an encoder's, which keep nothing
    saves    by what QUANTISE may be: how many bytes less the weights take then
    """

    parameters: int
    dtype: str
    weights: int
    token: int
    row: int
    layers: tuple[int, ...] = ()
    encoder: int = 0
    saves: Mapping[str, int] = field(default_factory=dict)


def measure(raw: Mapping[str, Any], stored: int, choose: Callable[[int], str], ranks: int = 1) -> Measure:
    """Measure the model of a config.json whose weights take `stored` bytes in files.

    `choose` gives the dtype to compute in for a number of parameters. Of a model that several ranks share,
    the bytes are those of one.
    """
    model = skeleton(raw)
    parameters = count(model) if model else stored // itemsize(stored_dtype(raw))
    dtype = choose(parameters)
    weights = stored if "quantization_config" in raw else parameters * itemsize(dtype)
    token, row = kept(model.to(getattr(torch, dtype))) if model else formula(SimpleNamespace(**raw), dtype)
    if model and ranks > 1:
        weights = int(weights * share(model, ranks))
        heads = ranks if splits_heads(model.tp_plan) else 1
        token, row = -(-token // heads), -(-row // heads)
    names = stacks(model) if model else [[]]
    layers = tuple(weights * held // parameters for held in held_by(model, chain.from_iterable(names)))
    return Measure(
        parameters=parameters,
        dtype=dtype,
        weights=weights,
        token=token,
        row=row,
        layers=layers,
        encoder=len(names[0]) if len(names) > 1 else 0,
        saves=saved(model, itemsize(dtype)) if model else {},
    )


def skeleton(raw: Mapping[str, Any]) -> Any:
    """The model without its weights; None where transformers cannot make it from its config alone."""
    try:
        config = AutoConfig.for_model(**raw)
        family = AutoModelForSeq2SeqLM if config.is_encoder_decoder else AutoModelForCausalLM
        with torch.device("meta"):
            return family.from_config(config).eval()
    except Exception:  # an architecture's own failure; the start goes on with an estimate
        return None


def count(model: Any) -> int:
    return sum(weight.numel() for weight in model.parameters())  # tied weights come once


def held_by(model: Any, names: Iterable[str]) -> Iterator[int]:
    """The number of parameters in each module; what several share is the first one's."""
    seen: set[int] = set()
    for name in names:
        weights = {id(weight): weight for weight in model.get_submodule(name).parameters()}
        yield sum(weights[key].numel() for key in weights.keys() - seen)
        seen |= weights.keys()


def kept(model: Any) -> tuple[int, int]:
    """Bytes that a sequence keeps: for each token, and at all."""
    low, high = SHORT_PROBES if getattr(model, "_is_stateful", False) else PROBES
    try:
        short, long = cached_bytes(model, low), cached_bytes(model, high)
    except Exception:  # its forward looks at values, which meta tensors do not have
        return formula(model.config.get_text_config(), str(model.dtype).removeprefix("torch."))
    token = -(-(long - short) // (high - low))
    return token, max(0, short - token * low)


def cached_bytes(model: Any, tokens: int) -> int:
    """What the model's cache holds after `tokens` tokens, and as many of the encoder's."""
    ids = torch.zeros(1, tokens, dtype=torch.long, device="meta")
    inputs = {"decoder_input_ids": ids} if model.config.is_encoder_decoder else {}
    with torch.no_grad():
        out = model(input_ids=ids, use_cache=True, **inputs)
    held = [out.get(name) for name in ("past_key_values", "cache_params", "state")]
    found = {id(tensor): tensor for tensor in tensors(held)}
    return sum(tensor.numel() * tensor.element_size() for tensor in found.values())


def tensors(held: Any) -> Iterator[torch.Tensor]:
    """Every tensor within a cache: in lists, dicts, layers, and caches of caches."""
    if isinstance(held, torch.Tensor):
        yield held
    elif isinstance(held, dict):
        yield from tensors(list(held.values()))
    elif isinstance(held, list | tuple):
        for item in held:
            yield from tensors(item)
    elif type(held).__module__.startswith("transformers.") and hasattr(held, "__dict__"):
        yield from tensors(vars(held))


def formula(config: Any, dtype: str) -> tuple[int, int]:
    """Keys and values of every layer in full, twice where a decoder also looks at an encoder."""
    heads = first(config, "num_attention_heads", "n_head", "num_heads", default=1)
    width = first(config, "hidden_size", "n_embd", "d_model", default=0)
    head = first(config, "head_dim", "d_kv", default=width // heads)
    layers = first(config, "num_hidden_layers", "n_layer", "num_layers", default=0)
    crossing = 2 if getattr(config, "is_encoder_decoder", False) else 1
    pair = 2 * first(config, "num_key_value_heads", default=heads) * head * itemsize(dtype)
    return crossing * layers * pair, 0


def first(config: Any, *names: str, default: int) -> int:
    values = (getattr(config, name, None) for name in names)
    return next((int(value) for value in values if value), default)


def stored_dtype(raw: Mapping[str, Any]) -> str:
    """The dtype that a config.json says the weights are in."""
    return str(raw.get("dtype") or raw.get("torch_dtype") or "float32")


def itemsize(dtype: str) -> int:
    return int(getattr(torch, dtype).itemsize)
