"""Times products with int8 and int4 weights, the server's and torch's, over the matrices of a shape's layers.

The section `quantized` measures whole steps with the server's. Each product is first compared with a float32
product of the dequantized weights. The matrices of NUM_LAYERS layers, more than a GPU's cache holds, are
computed one after the other, on a GPU in a captured graph; the times are those of all layers.
"""

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from inference.errors import named_error
from inference.model.paged.cuda import CudaGraphRecorder
from inference.model.quantization.device_matrix import DeviceMatrix
from inference.native.structs import NativeDtype
from scripts.bench.models import build_model
from scripts.gpu.device import measure_bandwidth, release_memory, time_call
from scripts.gpu.figure import Figure
from scripts.gpu.section import SectionRun

NUM_LAYERS = 4
GROUP = 32  # inputs with a scale of their own in int4, as in the CPU's matrices
INNER_K_TILES = 8  # of torch's layout of int4
ROWS = (1, 16, 64, 2048)
TURNS = 10
AS_THEY_ARE = "bfloat16"

Product = Callable[[Tensor], Tensor]  # (rows, inputs) → (rows, outputs)


class TimedProduct(NamedTuple):
    """A product, the float32 weight (outputs, inputs) that it stands for, and the bytes that it reads."""

    product: Product
    weight: Tensor
    num_bytes: int


def pack_plain(weight: Tensor) -> TimedProduct:
    return TimedProduct(lambda x: x @ weight.T, weight.float(), weight.nbytes)


def pack_int8(weight: Tensor) -> TimedProduct:
    """A scale for each output."""
    scales = (weight.float().abs().amax(1, keepdim=True) / 127).bfloat16()
    values = (weight.float() / scales.float()).round().clamp(-127, 127).to(torch.int8)
    product: Product = lambda x: torch.ops.aten._weight_int8pack_mm(x, values, scales[:, 0])  # noqa: E731
    return TimedProduct(product, values.float() * scales.float(), values.nbytes + scales.nbytes)


def pack_int4(weight: Tensor) -> TimedProduct:
    """A scale for each GROUP inputs of an output; values from -8 to 7."""
    groups = weight.float().unflatten(1, (-1, GROUP))  # (outputs, groups, GROUP)
    scales = (groups.abs().amax(2, keepdim=True) / 7).bfloat16()
    values = (groups / scales.float()).round().clamp(-8, 7)
    dequantized = (values * scales.float()).flatten(1)
    unsigned = (values + 8).flatten(1).to(torch.int32)
    offsets = torch.zeros_like(scales)  # tinygemm computes (value - 8) × scale + offset
    parameters = torch.cat([scales, offsets], 2).transpose(0, 1).contiguous()  # (groups, outputs, 2)
    suffix = "" if weight.is_cuda else "_for_cpu"
    if weight.is_cuda:  # two values a byte, the first one in the upper half
        unsigned = (unsigned[:, ::2] << 4 | unsigned[:, 1::2]).to(torch.uint8)
    matrix = getattr(torch.ops.aten, f"_convert_weight_to_int4pack{suffix}")(unsigned, INNER_K_TILES)
    multiply = getattr(torch.ops.aten, f"_weight_int4pack_mm{suffix}")
    product: Product = lambda x: multiply(x, matrix, GROUP, parameters)  # noqa: E731
    return TimedProduct(product, dequantized, matrix.nbytes + parameters.nbytes)


def pack_served(dtype: NativeDtype, weight: Tensor) -> TimedProduct:
    """As QUANTIZE packs it on a GPU."""
    matrix = DeviceMatrix.pack(weight, dtype)
    return TimedProduct(matrix.linear, matrix.unpack(torch.float32), matrix.nbytes)


PACKINGS: Mapping[str, Callable[[Tensor], TimedProduct]] = {
    AS_THEY_ARE: pack_plain,
    "int8": pack_int8,
    "int4": pack_int4,
    "int8, served": partial(pack_served, NativeDtype.INT8),
    "int4, served": partial(pack_served, NativeDtype.INT4),
}


@torch.inference_mode()
def measure_section(run: SectionRun) -> Iterator[Figure]:
    weights, depth = layer_weights(run)
    bytes_per_s, plain_s = measure_bandwidth(run.bench.device), {}
    for name, pack in PACKINGS.items():
        try:
            products = [pack(weight) for weight in weights]
            error = max(relative_error(each) for each in products[: len(products) // NUM_LAYERS])
        except RuntimeError as raised:  # this torch, or this GPU, has no such product
            yield Figure(name, "none", remark=named_error(raised, 150))
            continue
        num_bytes = sum(each.num_bytes for each in products) * depth / NUM_LAYERS
        yield Figure(f"{name}, weights", num_bytes / 1e9, "GB", f"of {depth} layers")
        yield Figure(f"{name}, error", error, "sd", "to float32, of a matrix's outputs")
        calls = [each.product for each in products]
        del products
        for rows in run.choose(ROWS, (1, 16)):
            seconds = time_products(calls, weights, rows) * depth / NUM_LAYERS
            plain_s.setdefault(rows, seconds)
            share = f"{100 * num_bytes / bytes_per_s / seconds:.0f} % of bandwidth"
            ratio = f"{plain_s[rows] / seconds:.2f} × the speed of {AS_THEY_ARE}"
            yield Figure(f"{name}, {rows} rows", seconds * 1e3, "ms", f"{ratio}, {share}")
    release_memory(run.bench.device)


def layer_weights(run: SectionRun) -> tuple[list[Tensor], int]:
    """Random bfloat16 weights of NUM_LAYERS layers of the measured shape, and how many layers it has."""
    with torch.device("meta"):
        model: Any = build_model(run.bench.model, AS_THEY_ARE, "meta")
    layers = model.get_decoder().layers
    shapes = [each.weight.shape for each in layers[0].modules() if isinstance(each, nn.Linear)]
    options: dict[str, Any] = {"dtype": torch.bfloat16, "device": run.bench.device}
    return [torch.randn(*shape, **options) * 0.02 for _ in range(NUM_LAYERS) for shape in shapes], len(layers)


def relative_error(timed: TimedProduct) -> float:
    """The largest error of an output, in standard deviations of the outputs."""
    x = torch.randn(16, timed.weight.shape[1], dtype=torch.bfloat16, device=timed.weight.device)
    expected = x.float() @ timed.weight.T
    return float((timed.product(x).float() - expected).abs().max() / expected.std())


def time_products(calls: list[Product], weights: list[Tensor], rows: int) -> float:
    """Seconds to compute all products with `rows` rows, the best of TURNS."""
    device = weights[0].device
    inputs = {
        size: torch.randn(rows, size, dtype=torch.bfloat16, device=device)
        for size in {weight.shape[1] for weight in weights}
    }

    def compute() -> Tensor:
        outputs = [call(inputs[weight.shape[1]]) for call, weight in zip(calls, weights, strict=True)]
        return outputs[-1]

    run = CudaGraphRecorder(device)(compute) if device.type == "cuda" else compute
    return min(time_call(run, device.type) for _ in range(TURNS))
