"""A model with half of its layers on the GPU and half on the CPU, as LAYERS places them: logits and speed.

Not the measured shape but a small one: the CPU reads its half of the weights for each token.
"""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import torch

from inference.model.placement.device_map import device_map, layer_stacks
from inference.model.placement.hooks import install_placement_hooks
from scripts.bench.models import build_model
from scripts.gpu.engine import EngineSize, SteppedEngine
from scripts.gpu.figure import Figure, WrongResult
from scripts.gpu.section import SectionRun

SHAPE = "0.5b"
SIZE = EngineSize(max_sequences=16, max_batch_tokens=512, context=1024)
ROWS = (1, 16)
STEPS = 24
PROBE_IDS = ((5, 9, 77, 13, 200, 31, 4, 8),)
TOLERANCE = 1e-3  # standard deviations of a logit, in float32


def measure_section(run: SectionRun) -> Iterator[Figure]:
    """Raises WrongResult if the split tiny model has other logits than the whole one."""
    error = split_error("tiny", "float32", run.bench.device)
    yield Figure("tiny, error to the whole model", error, "sd", "float32")
    if not error <= TOLERANCE:
        raise WrongResult(f"the split model has error {error:.0e}")
    options = replace(run.bench, model=run.choose(SHAPE, "tiny"))
    engine = SteppedEngine(options, SIZE, split_model)
    counts = f"half of {engine.model.config.num_hidden_layers} layers on the CPU, {options.threads} threads"
    yield Figure("runner", engine.selected.name, remark=f"{options.model}, {options.dtype}, {counts}")
    for rows in run.choose(ROWS, (1, 2)):
        seconds = engine.decode_step_s(rows, run.choose(STEPS, 4))
        yield Figure(f"{rows} rows", rows / seconds, "tokens/s", f"{seconds * 1e3:.1f} ms a step")


def split_model(shape: str, dtype: str, device: str) -> Any:
    """The model that build_model makes, with the second half of its layers on the CPU."""
    model = build_model(shape, dtype, device)
    num_layers = sum(map(len, layer_stacks(model)))
    devices = [device if layer < num_layers // 2 else "cpu" for layer in range(num_layers)]
    for name, layer_device in device_map(model, devices).items():
        model.get_submodule(name).to(layer_device)
    install_placement_hooks(model)
    return model


@torch.inference_mode()
def split_error(shape: str, dtype: str, device: str) -> float:
    """The largest difference between logits of the split and of the whole model, in standard deviations."""
    token_ids = torch.tensor(PROBE_IDS, device=device)
    expected = build_model(shape, dtype, device)(input_ids=token_ids, use_cache=False).logits
    logits = split_model(shape, dtype, device)(input_ids=token_ids, use_cache=False).logits
    return float((logits - expected).abs().max() / expected.std())
