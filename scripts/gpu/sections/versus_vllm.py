"""Compares our engine with vLLM: the loads of `rows256`, and one row as in `roofline`.

vLLM runs with dummy weights in a process of its own, whose log is vllm.txt. A ratio needs our figure of the
same run: `rows256` and `roofline` before this section.
"""

import json
import os
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from functools import partial
from importlib.machinery import PathFinder
from pathlib import Path
from random import Random
from typing import Any

from transformers.models.auto.modeling_auto import MODEL_FOR_CAUSAL_LM_MAPPING_NAMES

from scripts.bench.engine_under_test import EngineFailed
from scripts.bench.engines.subprocess_engine import SubprocessEngine
from scripts.bench.load import equal_length_load
from scripts.bench.models import config_of
from scripts.gpu.engine import PROMPT
from scripts.gpu.figure import Figure
from scripts.gpu.section import SectionRun
from scripts.gpu.sections.concurrent import ANSWER_TOKENS, PROMPT_TOKENS, ROWS
from scripts.loopback import HOST

DRIVER = "scripts.bench.drivers.vllm_llm"
LOG = "vllm.txt"
CONTEXT = 2048
MEMORY_FRACTION = 0.7  # of all VRAM: this process keeps some
LIMIT_S = 150  # of one start and its loads
CAPTURED_ROWS = [1, 2, 4, 8, *range(16, 257, 16)]  # of CUDA graphs; vLLM's own list takes longer
# How vLLM starts, the fastest first; the next one is for where it fails.
START_OPTIONS: Mapping[str, Mapping[str, Any]] = {
    "compiled": {"compilation_config": {"cudagraph_capture_sizes": CAPTURED_ROWS}},
    "CUDA graphs": {
        "compilation_config": {
            "mode": 0,
            "cudagraph_mode": "FULL_DECODE_ONLY",
            "cudagraph_capture_sizes": CAPTURED_ROWS,
        }
    },
    "eager": {"enforce_eager": True},
}


def measure_section(run: SectionRun) -> Iterator[Figure]:
    require_vllm(run.options.vllm_path)
    run.engines.free()
    with tempfile.TemporaryDirectory() as folder:
        save_config(run.bench.model, folder)
        for name, options in START_OPTIONS.items():
            start_s = time.perf_counter()
            try:
                engine = start_vllm(run, folder, options)
            except EngineFailed as error:
                yield Figure(f"start, {name}", "failed", remark=str(error))
                continue
            try:
                yield Figure(f"start, {name}", time.perf_counter() - start_s, "s", "with imports")
                yield from compare_throughput(run, engine)
                yield from compare_one_row(run, engine)
            finally:
                engine.stop()
            return
    raise EngineFailed(f"vLLM did not start; {LOG} says why")


def require_vllm(path: Path | None) -> None:
    if not PathFinder.find_spec("vllm", [str(path)] if path else None):
        raise EngineFailed(
            f"vLLM is not installed in {path or 'this Python'}: --vllm-path is the folder that contains it"
        )


def save_config(model: str, folder: str) -> None:
    config = config_of(model)
    config.architectures = [MODEL_FOR_CAUSAL_LM_MAPPING_NAMES[config.model_type]]
    config.save_pretrained(folder)


def start_vllm(run: SectionRun, folder: str, options: Mapping[str, Any]) -> SubprocessEngine:
    """vLLM with its first answers computed. Raises EngineFailed."""
    arguments = {
        "load_format": "dummy",
        "dtype": run.bench.dtype,
        "max_num_seqs": run.engines.size.max_sequences,
        "max_model_len": CONTEXT,
        "gpu_memory_utilization": MEMORY_FRACTION,
        "enable_prefix_caching": False,
    }
    engine = SubprocessEngine(
        [sys.executable, "-m", DRIVER, folder, json.dumps(arguments | options)],
        environment=make_environment(run.options.vllm_path),
        log=run.options.output / LOG,
        limit_s=min(LIMIT_S, run.remaining_s),
    )
    engine.run(equal_length_load(Random(1), run.bench.vocab_size, 2, 8, 4))
    return engine


def make_environment(path: Path | None) -> dict[str, str]:
    environment = {"HF_HUB_OFFLINE": "1", "VLLM_NO_USAGE_STATS": "1", "VLLM_HOST_IP": HOST}
    environment["PYTORCH_CUDA_ALLOC_CONF"] = ""  # its own choice, not ours
    if path:
        paths = [str(path.resolve()), os.environ.get("PYTHONPATH")]
        environment["PYTHONPATH"] = os.pathsep.join(filter(None, paths))
    return environment


def compare_throughput(run: SectionRun, engine: SubprocessEngine) -> Iterator[Figure]:
    make_load = partial(equal_length_load, Random(2), run.bench.vocab_size)
    prompt, num_tokens = run.choose((PROMPT_TOKENS, ANSWER_TOKENS), (24, 4))
    for rows in run.choose(ROWS, (2,)):
        name = f"{rows} requests"
        engine.run(make_load(rows, prompt // 4, 8))  # warm-up
        result = engine.run(make_load(rows, prompt, num_tokens))
        rate = result.tokens_per_second
        yield Figure(name, rate, "tokens/s", f"{prompt} in, {num_tokens} out")
        yield Figure(f"{name}, first token", result.first_token_ms(0.5), "ms")
        if ours := run.figures.get(("rows256", name)):
            yield Figure(f"{name}, ratio", ours / rate, "×", f"ours {ours:,.0f} tokens/s")


def compare_one_row(run: SectionRun, engine: SubprocessEngine) -> Iterator[Figure]:
    num_tokens = run.choose(ANSWER_TOKENS, 4)
    result = engine.run(equal_length_load(Random(3), run.bench.vocab_size, 1, PROMPT, num_tokens))
    ((first_s,),) = result.token_times
    step_ms = 1e3 * (result.seconds - first_s) / (num_tokens - 1)
    yield Figure("decode, 1 row", step_ms, "ms")
    if ours := run.figures.get(("roofline", "decode, 1 row")):
        yield Figure("decode, 1 row, ratio", step_ms / ours, "×", f"ours {ours:.3g} ms")
