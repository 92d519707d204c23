"""The structs of the C headers, field by field; a test compares them with the compiler's."""

import ctypes
from ctypes import POINTER, c_float, c_int32, c_int64, c_void_p
from enum import IntEnum


class Kind(IntEnum):
    """In what form a matrix, or the rows it is multiplied with, are kept."""

    F32 = 0
    BF16 = 1
    INT8 = 2
    INT4 = 3


class Activation(IntEnum):
    SILU = 0
    GELU_TANH = 1
    GELU = 2


class Matrix(ctypes.Structure):
    _fields_ = (
        ("kind", c_int32),
        ("outputs", c_int32),
        ("inputs", c_int32),
        ("padded", c_int32),
        ("values", c_void_p),
        ("scales", c_void_p),
        ("bias", c_void_p),
    )


class Inputs(ctypes.Structure):
    _fields_ = (
        ("kind", c_int32),
        ("rows", c_int32),
        ("padded", c_int32),
        ("values", c_void_p),
        ("scales", c_void_p),
        ("sums", c_void_p),
    )


class Layer(ctypes.Structure):
    _fields_ = (
        *((name, Matrix) for name in ("query", "key", "value", "output", "gate", "up", "down")),
        *((name, c_void_p) for name in ("before_attention", "after_attention", "before_mlp", "after_mlp")),
        *((name, c_void_p) for name in ("query_norm", "key_norm", "cos", "sin")),
        ("window", c_int32),
        ("unused", c_int32),
        ("keys", c_void_p),
        ("values", c_void_p),
    )


class Model(ctypes.Structure):
    _fields_ = (
        *((name, c_int32) for name in ("layers", "hidden", "heads", "groups", "head", "rotary")),
        *((name, c_int32) for name in ("activation", "form", "page", "threads")),
        *((name, c_float) for name in ("epsilon", "scale", "embedding_scale", "score_cap", "logit_cap")),
        ("residual_scale", c_float),
        ("embedding", Matrix),
        ("head_matrix", Matrix),
        ("last_norm", c_void_p),
        ("layer", POINTER(Layer)),
    )


class Step(ctypes.Structure):
    _fields_ = (
        *((name, c_int32) for name in ("tokens", "rows", "wanted", "unused")),
        *((name, c_void_p) for name in ("ids", "positions", "slots")),
        *((name, c_void_p) for name in ("starts", "lengths", "tables", "pages", "want", "logits", "memory")),
    )


class Logits(ctypes.Structure):
    _fields_ = (
        *((name, c_int32) for name in ("rows", "width", "form", "threads")),
        ("stride", c_int64),
        ("values", c_void_p),
        ("where", c_void_p),
    )


class Cuts(ctypes.Structure):
    _fields_ = tuple((name, c_void_p) for name in ("heats", "top_k", "top_p", "min_p"))
