"""Where `LAYERS` puts a model's layers: Neodim's list of how many go to each GPU, the rest to the CPU.

Of a model with an encoder, its layers are counted before the decoder's: they compute first.
"""

import logging
from collections.abc import Mapping, Sequence
from typing import Any

from checks.finding import Finding, Refused
from checks.measure import skeleton
from inference.model.split.spread import CPU, places, stacks

log = logging.getLogger(__name__)

REST = "a"  # all that are left
# How a config.json calls their number, for models whose own code must run to count them.
COUNTS = ("num_hidden_layers", "n_layer", "num_layers", "n_layers", "num_decoder_layers", "decoder_layers")

MEND = 'LAYERS = "0" for the CPU, "a" for the GPU, or "", and DEVICE'


def placed(asked: str, config: Mapping[str, Any], *, gpus: int) -> tuple[str, tuple[str, ...]]:
    """ "cpu" or "cuda"; and the device of each layer, where they are not all on the CPU or the first GPU.

    Where there is no GPU, the CPU takes what was meant for one, and the log says so. Raises Refused.
    """
    counts = parsed(asked)
    if not any(counts):
        return CPU, ()
    if not gpus:
        log.warning("LAYERS=%s asks for a GPU, and there is none: all layers are on the CPU", asked)
        return CPU, ()
    check_gpus(asked, counts, gpus)
    devices = spread_over(asked, counts, layers_of(config))
    return "cuda", () if set(devices) == {"cuda:0"} else devices


def parsed(asked: str) -> list[int | str]:
    """The numbers, and REST. Raises Refused."""
    counts = [count.strip().lower() for count in asked.split(",")]
    if counts.count(REST) > 1 or not all(count == REST or count.isdecimal() for count in counts):
        raise refused(asked, "numbers with commas between them, and at most one a")
    return [count if count == REST else int(count) for count in counts]


def check_gpus(asked: str, counts: Sequence[int | str], gpus: int) -> None:
    """Raise Refused where layers are for a GPU that is not there."""
    missing = next((gpu for gpu in range(gpus, len(counts)) if counts[gpu]), None)
    if missing is not None:
        have = "1 GPU, which is GPU 0" if gpus == 1 else f"{gpus} GPUs, the last of which is GPU {gpus - 1}"
        raise refused(asked, f"{have}: there is no GPU {missing}")


def spread_over(asked: str, counts: Sequence[int | str], layers: int | None) -> tuple[str, ...]:
    """The device of each layer. Raises Refused where the model has fewer than are asked for."""
    if layers is None:
        if counts[0] == REST and not any(counts[1:]):
            return ("cuda:0",)
        raise refused(asked, "a model whose layers cannot be counted before it is loaded")
    named = sum(count for count in counts if isinstance(count, int))
    if named > layers:
        raise refused(asked, f"the model has {layers} layers")
    return places([layers - named if isinstance(count, str) else count for count in counts], layers)


def layers_of(config: Mapping[str, Any]) -> int | None:
    """How many layers the model of a config.json has; one of text and images names them further in."""
    if model := skeleton(config):
        return sum(map(len, stacks(model)))
    parts = (config, config.get("text_config") or {})
    return next((int(part[name]) for part in parts for name in COUNTS if part.get(name)), None)


def refused(asked: str, have: str) -> Refused:
    return Refused(Finding("layers", asked, have, False, MEND))
