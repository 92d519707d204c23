"""Measures what LoRA adapters add to a step: the CPU time of steps with and without them, in turns.

    python -m scripts.bench.adapters                        one adapter and four, rank 16, on a 0.5 B model
    python -m scripts.bench.adapters --runner paged --rank 64 --threads 2

CPU time instead of wall time: other programs of the machine change it less. The values of weights are random.
"""

import argparse
import statistics
import time
from itertools import accumulate
from typing import Any, NamedTuple

import torch
from torch import nn
from transformers import AutoModelForCausalLM

from inference.model.batch import Batch, make_batch
from inference.model.fused.runner import FusedRunner
from inference.model.lora.delta import LoraDelta
from inference.model.lora.native import create_native_adapter
from inference.model.lora.runner import AdapterRunner
from inference.model.lora.weights import AdapterWeights
from inference.model.quantization.schemes import Quantization
from inference.model.runner_selection.requirements import RunnerLimits, RunnerRules
from inference.model.runner_selection.select_runner import select_runner
from scripts.bench.models import SHAPES

NUM_ADAPTERS = 4
CONTEXT, MAX_SEQUENCES, KV_MEMORY_BYTES = 1024, 16, 1 << 28


class StepShape(NamedTuple):
    """A step: num_rows rows compute num_tokens tokens each, behind num_cached. adapter_ids: of the rows."""

    num_rows: int
    num_tokens: int
    num_cached: int
    adapter_ids: list[int]


STEPS = {
    "one row decodes, one adapter": StepShape(1, 1, 200, [1]),
    "a prompt of 256 tokens, one adapter": StepShape(1, 256, 0, [1]),
    "16 rows decode, one adapter": StepShape(16, 1, 40, [1] * 16),
    "16 rows decode, four adapters": StepShape(16, 1, 40, [1] * 4 + [2] * 4 + [3] * 4 + [4] * 4),
}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--model", choices=SHAPES, default="0.5b")
    parser.add_argument("--runner", choices=("fused", "paged"), default="fused")
    parser.add_argument("--dtype", default="bfloat16")
    parser.add_argument("--quantize", default="none")
    parser.add_argument("--rank", type=int, default=16)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=30)
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    runner = create_runner(args)
    print(f"memory of an adapter: {runner.adapters[1].nbytes / 1e6:.1f} MB")
    for name, shape in STEPS.items():
        base, adapted = measure(runner, shape, args.rounds)
        print(f"{name}: {base * 1e3:.1f} ms, {adapted * 1e3:.1f} ms with adapters: {adapted / base - 1:+.1%}")


def create_runner(args: argparse.Namespace) -> AdapterRunner:
    """The runner of a random model, with random adapters on all linear layers of its decoder."""
    model = AutoModelForCausalLM.from_config(SHAPES[args.model](), dtype=getattr(torch, args.dtype)).eval()
    selected = select_runner(
        model,
        RunnerLimits(max_sequences=MAX_SEQUENCES, context=CONTEXT, kv_memory_bytes=KV_MEMORY_BYTES),
        RunnerRules(kinds=(args.runner,)),
        Quantization(args.quantize),
    )
    runner = AdapterRunner(model, selected.runner)
    for number in range(1, NUM_ADAPTERS + 1):
        adapter = random_adapter(model, number, args.rank)
        runner.add(adapter)
        if isinstance(selected.runner, FusedRunner):
            native = create_native_adapter(selected.runner, adapter)
            assert native is not None
            runner.use_native(adapter, native)
    return runner


def random_adapter(model: Any, number: int, rank: int, std: float = 0.02) -> AdapterWeights:
    """Pairs on all linear layers of the decoder, on the model's device; std: of their values."""
    head = model.get_output_embeddings()
    options = {"dtype": model.dtype, "device": model.device}
    deltas = {
        name: LoraDelta(
            torch.randn(rank, module.in_features, **options) * std,
            torch.randn(module.out_features, rank, **options) * std,
        )
        for name, module in model.named_modules()
        if isinstance(module, nn.Linear) and module is not head
    }
    return AdapterWeights(number, deltas, has_effect=True)


def measure(runner: AdapterRunner, shape: StepShape, rounds: int) -> tuple[float, float]:
    """The median CPU seconds of a step without and with the adapters, which are computed in turns."""
    base, adapted = make_step(runner, shape), make_step(runner, shape)
    adapted.adapter_ids.extend(shape.adapter_ids)
    seconds = [(cpu_s(runner, base), cpu_s(runner, adapted)) for _ in range(rounds)]
    without, with_adapters = zip(*seconds, strict=True)
    return statistics.median(without), statistics.median(with_adapters)


def cpu_s(runner: AdapterRunner, batch: Batch) -> float:
    began = time.process_time()
    runner.forward(batch)
    return time.process_time() - began


def make_step(runner: AdapterRunner, shape: StepShape) -> Batch:
    num_pages = -(-(shape.num_cached + shape.num_tokens) // runner.page_size)
    starts = list(accumulate([shape.num_tokens] * shape.num_rows, initial=0))
    return make_batch(
        [7 * place % 1000 for place in range(starts[-1])],
        starts,
        [shape.num_cached] * shape.num_rows,
        range(shape.num_rows),
        [start - 1 for start in starts[1:]],
        page_table=[range(row * num_pages, (row + 1) * num_pages) for row in range(shape.num_rows)],
        page_size=runner.page_size,
    )


if __name__ == "__main__":
    main()
