"""The C library for this machine, loaded once: the fastest level that the processor and the compiler know.

HEARTH_NATIVE in the environment is one level's name, for tests and where a level makes trouble, or "off".
"""

import ctypes
import logging
import os
from ctypes import POINTER, c_int, c_int64, c_size_t, c_void_p
from functools import cache
from typing import Any

from inference.native.build import Unbuilt, built
from inference.native.levels import EMULATED, Level, levels_for
from inference.native.processor import processor_features
from inference.native.structs import Cuts, Logits, Matrix, Model, Step

SETTING = "HEARTH_NATIVE"
OFF = "off"
log = logging.getLogger(__name__)

# Functions: what they return, and what they take.
FUNCTIONS: dict[str, tuple[Any, tuple[Any, ...]]] = {
    "matrix_bytes": (c_size_t, (c_int, c_int, c_int)),
    "matrix_scale_bytes": (c_size_t, (c_int, c_int, c_int)),
    "matrix_pack": (None, (POINTER(Matrix), c_void_p, c_int, c_int64, c_int, c_int, c_int)),
    "matrix_unpack": (None, (POINTER(Matrix), c_void_p, c_int, c_int64, c_int, c_int, c_int)),
    "matrix_row": (None, (POINTER(Matrix), c_int, c_void_p)),
    "multiply_ready": (c_int, ()),
    "linear_bytes": (c_size_t, (POINTER(Matrix), c_int)),
    "linear": (None, (POINTER(Matrix), c_void_p, c_void_p, c_int, c_int, c_void_p, c_int)),
    "step_bytes": (c_size_t, (POINTER(Model), POINTER(Step))),
    "step_run": (None, (POINTER(Model), POINTER(Step))),
    "largest": (None, (POINTER(Logits), c_void_p, c_void_p)),
    "cut_bytes": (c_size_t, (POINTER(Logits),)),
    "cut": (None, (POINTER(Logits), POINTER(Cuts), c_void_p, c_void_p)),
    "winners": (None, (POINTER(Logits), *[c_void_p] * 4)),
}


@cache
def library() -> ctypes.CDLL:
    """The library of the best level, built if it was not yet. Raises Unbuilt with the reason."""
    reasons = []
    for level in wanted(os.environ.get(SETTING, "")):
        try:
            return load(level)
        except Unbuilt as reason:
            log.info("native level=%s is not used: %s", level.name, reason)
            reasons.append(str(reason))
    raise Unbuilt("; ".join(dict.fromkeys(reasons)))


def wanted(setting: str) -> list[Level]:
    """The levels to try in turn. Raises Unbuilt where the setting is off, or names none that runs here."""
    if setting == OFF:
        raise Unbuilt(f"{SETTING} is {OFF}")
    features = processor_features()
    possible = levels_for(features)
    if setting == EMULATED.name and EMULATED.needs <= features:
        return [EMULATED]
    chosen = [level for level in possible if setting in ("", level.name)]
    if not chosen:
        names = " | ".join((OFF, *(level.name for level in possible)))
        raise Unbuilt(f"{SETTING} is {setting}; this processor has {names}")
    return chosen


def load(level: Level) -> ctypes.CDLL:
    """The library of one level. Raises Unbuilt."""
    path = built(level)
    try:
        loaded = ctypes.CDLL(str(path))
    except OSError as error:
        raise Unbuilt(f"{path} does not load: {error}") from error
    for name, (returns, takes) in FUNCTIONS.items():
        function = getattr(loaded, name)
        function.restype, function.argtypes = returns, takes
    if not loaded.multiply_ready():
        raise Unbuilt(f"the kernel does not let this process use {level.name}")
    return loaded
