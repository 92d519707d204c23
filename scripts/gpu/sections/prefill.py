"""Times steps that compute only prompts, and divides their arithmetic by the peak of a large matmul (MFU).

Arithmetic of a step: two operations for each weight and token, and causal attention. Embeddings count for
nothing; the output matrix counts for the one token of each prompt whose logits are computed. Several steps
run back to back; what they take longer than a single one is divided among the others.
"""

import time
from collections.abc import Iterator
from typing import Any

import torch

from scripts.bench.hearth import make_request
from scripts.gpu.device import measure_peak
from scripts.gpu.engine import SteppedEngine, TokenSink
from scripts.gpu.figure import Figure
from scripts.gpu.section import SectionRun

TOKENS = (512, 2048, 8192)
NUM_STEPS = 6


def measure_section(run: SectionRun) -> Iterator[Figure]:
    engine, device = run.engines.get(), run.bench.device
    peak = measure_peak(device, run.bench.dtype)
    yield Figure(f"peak of a {run.bench.dtype} matmul", peak / 1e12, "TFLOP/s")
    for tokens in run.choose(TOKENS, (32,)):
        prompts, length = divide_step(tokens, engine.context)
        name = f"{tokens} tokens"
        with engine.using(max_batch_tokens=prompts * length):
            time_steps(engine, prompts, length, 2)  # warm-up
            single_s = min(time_steps(engine, prompts, length, 1) for _ in range(3))
            yield Figure(
                f"{name}, alone", single_s * 1e3, "ms", f"{prompts} × {length}, until its first token"
            )
            steps = run.choose(NUM_STEPS, 2)
            step_s = (time_steps(engine, prompts, length, steps) - single_s) / (steps - 1)
        yield Figure(f"{name}, rate", prompts * length / step_s, "tokens/s", f"{step_s * 1e3:.2f} ms a step")
        operations = prompts * prompt_operations(engine.model, length)
        yield Figure(f"{name}, MFU", 100 * operations / step_s / peak, "%", f"{operations / 1e12:.1f} TFLOP")


def divide_step(tokens: int, context: int) -> tuple[int, int]:
    """How many prompts of how many tokens fill a step; a prompt leaves room for one token in its context."""
    prompts = -(-(tokens - 1) // (context - 1))
    return prompts, min(tokens // prompts, context - 1)


@torch.inference_mode()
def time_steps(engine: SteppedEngine, prompts: int, length: int, steps: int) -> float:
    """Seconds from the submission of prompts for so many steps to the token of the last one."""
    load = engine.make_load(prompts * steps, length, 1)
    sinks = [TokenSink() for _ in load]
    start_s = time.perf_counter()
    engine.engine.submit([make_request(request) for request in load], sinks)
    engine.drain()
    for sink in sinks:
        if sink.error:
            raise sink.error
    return max(sink.first_s for sink in sinks) - start_s


def prompt_operations(model: Any, length: int) -> float:
    """Floating-point operations to compute a prompt of `length` tokens and the logits of its last token."""
    embedding, head = model.get_input_embeddings().weight, model.get_output_embeddings().weight
    tables = embedding.numel() + (0 if head is embedding else head.numel())
    weights = sum(weight.numel() for weight in model.parameters()) - tables
    config = model.config.get_text_config()
    head_dim = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
    attention = 2 * config.num_hidden_layers * config.num_attention_heads * head_dim * length**2
    return 2.0 * weights * length + attention + 2.0 * head.numel()
