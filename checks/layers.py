"""Which device `LAYERS` means: Neodim's list of how many layers go to each GPU, the rest to the CPU.

One device holds a whole model here; a list that puts everything on one is obeyed.
"""

import logging
from collections.abc import Mapping
from typing import Any

from checks.finding import Finding, Refused

log = logging.getLogger(__name__)

REST = "a"  # all that are left
COUNTS = ("num_hidden_layers", "n_layer", "num_layers", "n_layers", "num_decoder_layers", "decoder_layers")


def device(asked: str, config: Mapping[str, Any], *, gpus: int) -> str:
    """ "cpu" or "cuda" for a list such as "0", "a" or "12"; raises Refused for "2,a", which splits a model.

    Where there is no GPU, the CPU takes what was meant for one, and the log says so.
    """
    counts = [count.strip().lower() for count in asked.split(",")]
    check_syntax(asked, counts)
    placed = {gpu: count for gpu, count in enumerate(counts) if count == REST or int(count)}
    if not placed:
        return "cpu"
    if not gpus:
        log.warning("LAYERS=%s asks for a GPU, and there is none: all layers are on the CPU", asked)
        return "cpu"
    check_whole(asked, placed, layers_of(config))
    return "cuda"


def check_syntax(asked: str, counts: list[str]) -> None:
    if counts.count(REST) > 1 or not all(count == REST or count.isdecimal() for count in counts):
        raise refused(asked, "numbers with commas between them, and at most one a")


def check_whole(asked: str, placed: Mapping[int, str], layers: int | None) -> None:
    """Raise Refused unless all layers are on the first GPU, which "a" alone or their number says."""
    total = sum(int(count) for count in placed.values() if count != REST)
    if layers is not None and total > layers:
        raise refused(asked, f"the model has {layers} layers")
    first = placed.get(0, "")
    whole = first == str(layers) or (first == REST and not total)
    if not whole:
        have = "a model is on one device, the first GPU or the CPU, until layer placement lands"
        raise refused(asked, have)


def layers_of(config: Mapping[str, Any]) -> int | None:
    """How many layers a config.json names; a model of text and images names them further in."""
    parts = (config, config.get("text_config") or {})
    return next((int(part[name]) for part in parts for name in COUNTS if part.get(name)), None)


def refused(asked: str, have: str) -> Refused:
    mend = 'LAYERS = "0" for the CPU, "a" for the GPU, or "", and DEVICE'
    return Refused(Finding("layers", asked, have, False, mend))
