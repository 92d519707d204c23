"""The C library for this machine, loaded once: the fastest CPU level that the processor and compiler support.

The environment variable HEARTH_NATIVE overrides the choice, for tests and in case of trouble: the name of a
level, or "off".
"""

import ctypes
import logging
import os
from ctypes import POINTER, c_int, c_int64, c_size_t, c_void_p
from functools import cache
from pathlib import Path
from typing import Any

from inference.native.build import NativeUnavailable, build_library
from inference.native.cpu_levels import EMULATED, Level, levels_for, processor_features
from inference.native.structs import CutoffParams, Logits, Matrix, Model, Step

SETTING = "HEARTH_NATIVE"
OFF = "off"
log = logging.getLogger(__name__)

# Function name: (result type, argument types).
FUNCTIONS: dict[str, tuple[Any, tuple[Any, ...]]] = {
    "matrix_bytes": (c_size_t, (c_int, c_int, c_int)),
    "matrix_scale_bytes": (c_size_t, (c_int, c_int, c_int)),
    "matrix_pack": (None, (POINTER(Matrix), c_void_p, c_int, c_int64, c_int, c_int, c_void_p, c_int)),
    "matrix_unpack": (None, (POINTER(Matrix), c_void_p, c_int, c_int64, c_int, c_int, c_int)),
    "gguf_pack": (None, (POINTER(Matrix), c_void_p, c_void_p, c_int)),
    "matrix_row": (None, (POINTER(Matrix), c_int, c_void_p)),
    "multiply_ready": (c_int, ()),
    "linear_bytes": (c_size_t, (POINTER(Matrix), c_int)),
    "linear": (None, (POINTER(Matrix), c_void_p, c_void_p, c_int, c_int, c_void_p, c_int)),
    "low_rank_project": (None, (c_void_p, c_int64, c_void_p, c_void_p, c_int, c_int, c_int)),
    "low_rank_add": (None, (c_void_p, c_void_p, c_void_p, c_int64, c_int, c_int, c_int)),
    "step_bytes": (c_size_t, (POINTER(Model), POINTER(Step))),
    "step_run": (None, (POINTER(Model), POINTER(Step))),
    "argmax": (None, (POINTER(Logits), c_void_p, c_void_p)),
    "cutoffs_bytes": (c_size_t, (POINTER(Logits),)),
    "cutoffs_compute": (None, (POINTER(Logits), POINTER(CutoffParams), c_void_p, c_void_p)),
    "gumbel_argmax": (None, (POINTER(Logits), *[c_void_p] * 4)),
    "token_logprobs": (None, (POINTER(Logits), *[c_void_p] * 4)),
}


@cache
def library() -> ctypes.CDLL:
    """The library of the fastest working level, built on first use. Raises NativeUnavailable."""
    reasons = []
    for level in candidate_levels(os.environ.get(SETTING, "")):
        try:
            return load(level)
        except NativeUnavailable as reason:
            log.info("native level=%s is not used: %s", level.name, reason)
            reasons.append(str(reason))
    raise NativeUnavailable("; ".join(dict.fromkeys(reasons)))


def library_id() -> str:
    """The library's level and fingerprint: another one may pack otherwise. Raises NativeUnavailable."""
    path = Path(library()._name)
    return f"{path.stem}-{path.parent.name}"


@cache
def available() -> bool:
    """Whether there is a library. Builds it on the first call."""
    try:
        library()
    except NativeUnavailable:
        return False
    return True


def candidate_levels(setting: str) -> list[Level]:
    """The levels to try, in order. Raises NativeUnavailable for "off" and for an unsupported level."""
    if setting == OFF:
        raise NativeUnavailable(f"{SETTING} is {OFF}")
    features = processor_features()
    possible = levels_for(features)
    if setting == EMULATED.name and EMULATED.needs <= features:
        return [EMULATED]
    matching = [level for level in possible if setting in ("", level.name)]
    if not matching:
        names = " | ".join((OFF, *(level.name for level in possible)))
        raise NativeUnavailable(f"{SETTING}={setting} is not supported: this processor has {names}")
    return matching


def load(level: Level) -> ctypes.CDLL:
    """Build and load the library of one level. Raises NativeUnavailable."""
    path = build_library(level)
    try:
        loaded = ctypes.CDLL(str(path))
    except OSError as error:
        raise NativeUnavailable(f"{path} does not load: {error}") from error
    for name, (result_type, argument_types) in FUNCTIONS.items():
        function = getattr(loaded, name)
        function.restype, function.argtypes = result_type, argument_types
    if not loaded.multiply_ready():
        raise NativeUnavailable(f"the kernel does not allow this process to use {level.name}")
    return loaded
