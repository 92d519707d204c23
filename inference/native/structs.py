"""ctypes declarations of the structs in the C headers; a test compares their layouts with the compiler's."""

import ctypes
from ctypes import POINTER, c_float, c_int32, c_int64, c_void_p
from enum import IntEnum


class NativeDtype(IntEnum):
    """The format of a matrix, or of the rows that it is multiplied with: enum NativeDtype in panel.h."""

    F32 = 0
    BF16 = 1
    F16 = 2
    INT8 = 3
    INT4 = 4
    Q8_0 = 5
    Q4_0 = 6
    Q4_1 = 7
    Q5_0 = 8
    Q5_1 = 9
    Q2_K = 10
    Q3_K = 11
    Q4_K = 12
    Q5_K = 13
    Q6_K = 14
    IQ4_NL = 15
    IQ4_XS = 16
    MXFP4 = 17


GGUF_DTYPES = tuple(dtype for dtype in NativeDtype if dtype >= NativeDtype.Q8_0)  # see gguf_layout.h
GGUF_SOURCES = (  # of these, which float weights are quantized to, see gguf_quantize.h
    *(NativeDtype.Q8_0, NativeDtype.Q4_0, NativeDtype.Q5_0, NativeDtype.Q5_1),
    *(NativeDtype.Q4_K, NativeDtype.Q5_K, NativeDtype.Q6_K),
)
# Packed from float weights of any shape.
FLOAT_SOURCES = tuple(dtype for dtype in NativeDtype if dtype not in GGUF_DTYPES)


class Activation(IntEnum):
    SILU = 0
    GELU_TANH = 1
    GELU = 2


class Matrix(ctypes.Structure):
    _fields_ = (
        ("dtype", c_int32),
        ("outputs", c_int32),
        ("inputs", c_int32),
        ("padded", c_int32),
        ("values", c_void_p),
        ("scales", c_void_p),
        ("bias", c_void_p),
    )


DELTA_PLACES = ("query", "key", "value", "output", "gate", "up", "down")  # of a layer's matrices


class Inputs(ctypes.Structure):
    _fields_ = (
        ("dtype", c_int32),
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
        ("group", c_int32),
        ("keys", c_void_p),
        ("values", c_void_p),
    )


class Model(ctypes.Structure):
    _fields_ = (
        *((name, c_int32) for name in ("layers", "hidden", "num_heads", "num_kv_heads", "head_dim")),
        *((name, c_int32) for name in ("rotary", "activation", "dtype", "page", "threads", "kv_dtype")),
        *((name, c_float) for name in ("epsilon", "scale", "embedding_scale")),
        *((name, c_float) for name in ("attn_logit_softcap", "final_logit_softcap", "residual_scale")),
        ("embedding", Matrix),
        ("lm_head", Matrix),
        ("final_norm", c_void_p),
        ("layer", POINTER(Layer)),
    )


class Delta(ctypes.Structure):
    _fields_ = (("a", Matrix), *((name, c_void_p) for name in ("b", "factor", "shift")))


class LayerDeltas(ctypes.Structure):
    """The deltas of DELTA_PLACES, in this order."""

    _fields_ = (("delta", Delta * len(DELTA_PLACES)),)


class AdapterSpan(ctypes.Structure):
    _fields_ = (
        *((name, c_int32) for name in ("first", "end", "logits_first", "logits_end")),
        ("layers", POINTER(LayerDeltas)),
        ("head", POINTER(Delta)),
    )


class Step(ctypes.Structure):
    _fields_ = (
        *(
            (name, c_int32)
            for name in ("tokens", "rows", "num_logits", "num_outputs", "num_spans", "max_rank")
        ),
        *((name, c_void_p) for name in ("ids", "positions", "slot_mapping")),
        *((name, c_void_p) for name in ("query_start_loc", "seq_lens", "page_table", "pages")),
        *((name, c_void_p) for name in ("output_indices", "logits_rows", "spans")),
        *((name, c_void_p) for name in ("logits", "hidden", "workspace")),
    )


class Logits(ctypes.Structure):
    _fields_ = (
        *((name, c_int32) for name in ("rows", "width", "dtype", "threads")),
        ("stride", c_int64),
        ("values", c_void_p),
        ("where", c_void_p),
    )


class CutoffParams(ctypes.Structure):
    _fields_ = tuple((name, c_void_p) for name in ("temperatures", "top_k", "top_p", "min_p"))
