"""How large a model is, asked of the model itself: built without memory, loaded without values, and run.

Where a model cannot be asked (it brings its own code, or needs values), files and config give an estimate.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from itertools import chain
from types import SimpleNamespace
from typing import Any

import torch
from torch import Tensor

from checks.measure.formula import formula
from checks.measure.kept import AUTO, kept, refusal
from checks.measure.packed import is_packed, packed
from checks.measure.sampled import fused, sampled
from checks.measure.skeleton import Loaded, count, held_by, loaded, made, nbytes
from checks.measure.split import share, splits_heads
from checks.measure.step import work
from checks.source.tensors import dtype_in
from inference.errors import named
from inference.model.prequantised import QUANTISED, shows_blind
from inference.model.split.spread import stacks
from inference.model.weights.kinds import saved


@dataclass(frozen=True, slots=True)
class Measure:
    """In bytes: the weights; what one more token of a sequence keeps; what a sequence keeps however short.

    layers   weights of each layer, an encoder's before its decoder's; empty where the model cannot be asked
    encoder  how many of the layers are an encoder's, which keep nothing
    saves    by what QUANTISE may be: how many bytes less the weights take then
    buffers  of `weights`, what is no parameter: tables of positions, masks
    asked    whether the model told what sequences keep; else it is a formula's
    stored   the dtype of the files' weights; empty where that is not known but from config.json
    missing  the weights that the files lack, and `wrong` those of another shape, as in skeleton.Loaded
    copied   of `weights`, what loading makes in memory of its own, besides what it reads for that
    work     what a step takes for each of its tokens while it is computed
    largest  the largest weight
    native   on a CPU native code computes the whole step, where it proves right
    sample   what is packed besides to see whether that pays
    vocab    how many logits a token has
    unmade   why transformers does not make the model by itself; empty where it does
    unfit    why the seat that is asked for refuses the model; empty where it does not
    """

    parameters: int
    dtype: str
    weights: int
    token: int
    row: int
    layers: tuple[int, ...] = ()
    encoder: int = 0
    saves: Mapping[str, int] = field(default_factory=dict)
    buffers: int = 0
    asked: bool = True
    stored: str = ""
    missing: tuple[str, ...] = ()
    wrong: tuple[tuple[str, tuple[int, ...], tuple[int, ...]], ...] = ()
    copied: int = 0
    work: int = 0
    largest: int = 0
    native: bool = False
    sample: int = 0
    vocab: int = 0
    unmade: str = ""
    unfit: str = ""

    @property
    def converts(self) -> bool:
        """Whether all is copied: it is in another dtype than in the files."""
        return self.copied >= self.weights - self.buffers


def measure(
    raw: Mapping[str, Any],
    stored: int,
    choose: Callable[[int], str],
    ranks: int = 1,
    tensors: Mapping[str, Tensor] | None = None,
    seat: str = AUTO,
    alone: bool = False,
) -> Measure:
    """Measure the model of a config.json whose weights take `stored` bytes in files.

    `choose` gives the dtype to compute in for a number of parameters. `tensors` are those of the files, on
    the meta device; None where they are not known. `seat` is the one asked for, `alone` whether rows must
    change no bit of each other. Of a model that several ranks share, the bytes are those of one.
    """
    try:
        model = made(raw)
    except Exception as error:  # an architecture's own failure, or a type that only the model's code knows
        return replace(estimate(raw, stored, choose, tensors), unmade=named(error))
    parameters = count(model)
    dtype = choose(parameters)
    found = weighed(model, dtype, raw, tensors)
    whole = found.model if found else model.to(getattr(torch, dtype))
    sized = found is not None or not is_packed(raw)
    weights, buffers, layers = bytes_in(whole, None if sized else packed(whole, tensors, dtype, stored))
    text, stacked = whole.config.get_text_config(), stacks(whole)
    saves, step = saved(model, itemsize(dtype)), work(whole)
    native = fused(whole, seat)
    sample = 0 if native else sampled(whole)
    told = kept(model.to(getattr(torch, dtype)), seat, alone)
    unfit = refusal(model, seat, alone) if told == (0, 0) and seat != AUTO else ""
    token, row = told or formula(text, itemsize(dtype))
    measured = Measure(
        *(parameters, dtype, weights, token, row, layers),
        encoder=len(stacked[0]) if len(stacked) > 1 else 0,
        saves=saves,
        buffers=buffers,
        asked=told is not None,
        unfit=unfit,
        stored=dtype_in(tensors),
        copied=converted(weights - buffers, dtype, raw),
        work=step,
        largest=max((weight.nbytes for weight in whole.parameters()), default=0),
        native=native,
        sample=sample,
        vocab=int(getattr(text, "vocab_size", 0)),
    )
    if found and tensors:
        measured = replace(measured, missing=found.missing, wrong=found.wrong, copied=found.copied)
    return shared(measured, whole, ranks, sized)


def estimate(
    raw: Mapping[str, Any], stored: int, choose: Callable[[int], str], tensors: Mapping[str, Tensor] | None
) -> Measure:
    """Of a model that only its own code can make: its files' weights in the dtype it will have."""
    held = stored_dtype(raw)
    parameters = sum(tensor.numel() for tensor in tensors.values()) if tensors else stored // itemsize(held)
    dtype = choose(parameters)
    text = raw.get("text_config")
    config = SimpleNamespace(**(text if isinstance(text, Mapping) else raw))
    token, row = formula(config, itemsize(dtype))
    weights = stored if is_packed(raw) else parameters * itemsize(dtype)
    copied = converted(weights, dtype, raw)
    return Measure(
        parameters, dtype, weights, token, row, asked=False, stored=dtype_in(tensors), copied=copied
    )


def weighed(
    model: Any, dtype: str, raw: Mapping[str, Any], tensors: Mapping[str, Tensor] | None
) -> Loaded | None:
    """The model as it will be loaded; None where that can be told only with values."""
    if QUANTISED in raw and (tensors is None or not shows_blind(raw[QUANTISED])):
        return None
    return loaded(model, dtype, tensors)


def bytes_in(model: Any, stored: int | None) -> tuple[int, int, tuple[int, ...]]:
    """Of all, of the buffers, of each layer. `stored`: what all take in files, where shapes do not tell."""
    buffers, weights = nbytes(model.buffers()), nbytes(model.parameters())
    layers = tuple(held_by(model, chain.from_iterable(stacks(model))))
    if stored is None:
        return weights + buffers, buffers, layers
    return stored, buffers, tuple(stored * layer // max(1, weights) for layer in layers)


def shared(whole: Measure, model: Any, ranks: int, sized: bool) -> Measure:
    """What each of the ranks has; `sized`: shapes tell what weights take, and buffers are every rank's."""
    if ranks == 1:
        return whole
    part, heads = share(model, ranks), ranks if splits_heads(model.tp_plan) else 1
    alike = whole.buffers if sized else 0
    return replace(
        whole,
        weights=round((whole.weights - alike) * part) + alike,
        token=-(-whole.token // heads),
        row=-(-whole.row // heads),
        layers=tuple(int(layer * part) for layer in whole.layers),
        copied=int(whole.copied * part),
    )


def stored_dtype(raw: Mapping[str, Any]) -> str:
    """The dtype that a config.json says the weights are in."""
    return str(raw.get("dtype") or raw.get("torch_dtype") or "float32")


def converted(weights: int, dtype: str, raw: Mapping[str, Any]) -> int:
    """Of so many bytes in a dtype, those that are not as config.json says of the files."""
    return 0 if dtype == stored_dtype(raw) else weights


def itemsize(dtype: str) -> int:
    return int(getattr(torch, dtype).itemsize)
