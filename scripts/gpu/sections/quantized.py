"""The measured shape with QUANTIZE int8 and int4: logits, decoding, a prompt, and memory.

The logits are compared with those of the CPU's quantized weights on a small model: the CPU computes them in
float32 with the dequantized values of its native matrices, so that both have the same weights.
"""

from collections.abc import Generator, Iterator
from dataclasses import replace

import torch
from transformers import PreTrainedModel

from inference.model.quantization.dequantized import Dequantized
from inference.model.quantization.quantize import pack_on
from inference.native.build import NativeUnavailable
from scripts.bench.models import build_model, bytes_per_token
from scripts.gpu.device import measure_bandwidth
from scripts.gpu.engine import PROMPT, SteppedEngine
from scripts.gpu.figure import Figure, WrongResult
from scripts.gpu.section import SectionRun
from scripts.gpu.sections import prefill
from scripts.gpu.sections.roofline import kv_bytes_read

SCHEMES = ("int8", "int4")
COMPARED_SHAPE, COMPARED_SAMPLE = "77m", "tiny"
COMPARED_IDS = ((5, 9, 77, 13, 200, 31, 4, 8),)
# Standard deviations of a logit; ties of rounding fall otherwise on a GPU.
TOLERANCES = {"float32": 5e-2, "bfloat16": 0.2}
CPU_TOLERANCE = 0.5  # native products round activations to 8 bits
STEPS = 64
ROWS = (1, 64)
PROMPT_TOKENS = 2048


def measure_section(run: SectionRun) -> Iterator[Figure]:
    """Raises WrongResult, once all is measured, if logits are not those of the CPU's quantized weights."""
    try:
        wrong = yield from compare_with_cpu(run)
    except NativeUnavailable as reason:  # the speed is measured all the same
        yield Figure("errors", "not measured", remark=str(reason))
        wrong = []
    run.engines.free()
    for scheme in SCHEMES:
        engine = SteppedEngine(replace(run.bench, quantize=scheme), run.engines.size)
        yield Figure(f"{scheme}, until ready", engine.build_s + engine.select_s, "s", engine.selected.name)
        yield from measure_scheme(run, engine, scheme)
        del engine
        run.engines.free()
    if wrong:
        raise WrongResult(", ".join(wrong))


def compare_with_cpu(run: SectionRun) -> Generator[Figure, None, list[str]]:
    """The errors as figures; returns those that are too large. Raises NativeUnavailable."""
    shape, wrong = run.choose(COMPARED_SHAPE, COMPARED_SAMPLE), list[str]()
    for scheme in SCHEMES:
        for dtype, tolerance in TOLERANCES.items():
            error = error_to_cpu(shape, scheme, dtype, run.bench.device)
            yield Figure(f"{scheme}, error in {dtype}", error, "sd", f"{shape}, to the CPU's weights")
            if not error <= (tolerance if run.bench.device == "cuda" else CPU_TOLERANCE):
                wrong.append(f"{scheme} in {dtype} has error {error:.0e}")
    return wrong


def measure_scheme(run: SectionRun, engine: SteppedEngine, scheme: str) -> Iterator[Figure]:
    device, steps = run.bench.device, run.choose(STEPS, 4)
    if device == "cuda":
        yield Figure(
            f"{scheme}, weights", (torch.cuda.memory_allocated() - kv_bytes(engine)) / 1e9, "GB of VRAM"
        )
    weight_bytes = bytes_per_token(run.bench.model, scheme)
    for rows in run.choose(ROWS, (1, 2)):
        seconds = engine.decode_step_s(rows, steps)
        num_bytes = weight_bytes + rows * kv_bytes_read(engine.selected.kv_cost, PROMPT + steps / 2)
        share = 100 * num_bytes / measure_bandwidth(device) / seconds
        yield Figure(f"{scheme}, {rows} rows", seconds * 1e3, "ms a step", f"{rows / seconds:.0f} tokens/s")
        yield Figure(
            f"{scheme}, {rows} rows, share of roofline", share, "%", f"{num_bytes / 1e9:.2f} GB a step"
        )
    tokens = run.choose(PROMPT_TOKENS, 32)
    prefill.time_steps(engine, 1, tokens, 1)  # warm-up
    seconds = min(prefill.time_steps(engine, 1, tokens, 1) for _ in range(3))
    yield Figure(f"{scheme}, prompt of {tokens}", seconds * 1e3, "ms", "until its first token")


def kv_bytes(engine: SteppedEngine) -> int:
    """Bytes of the runner's pages; 0 if it has none."""
    pool = getattr(engine.runner, "pool", None)
    return sum(kv.keys.nbytes + kv.values.nbytes for kv in pool.layers.values()) if pool else 0


@torch.inference_mode()
def error_to_cpu(shape: str, scheme: str, dtype: str, device: str) -> float:
    """The largest difference of a logit to the CPU's, in standard deviations."""
    reference = quantized_model(shape, scheme, "float32", dtype, "cpu")
    token_ids = torch.tensor(COMPARED_IDS)
    with Dequantized():
        expected = reference(input_ids=token_ids, use_cache=False).logits.float()
    model = quantized_model(shape, scheme, dtype, dtype, device)
    logits = model(input_ids=token_ids.to(device), use_cache=False).logits.float().cpu()
    return float((logits - expected).abs().max() / expected.std())


def quantized_model(shape: str, scheme: str, dtype: str, stored_dtype: str, device: str) -> PreTrainedModel:
    """The small model, computed in `dtype`; before quantization its values have the stored dtype."""
    model: PreTrainedModel = build_model(shape, stored_dtype, "cpu").to(getattr(torch, dtype))
    pack_on(model, scheme, device)
    return model
