"""Times variants of the Triton attention kernel: stages, BLOCK_N, warps and splits.

First every variant computes a few typical steps; then the fastest ones compute all steps, and the fastest
divides rows into more and fewer splits. Several layers with pages of their own are computed in turn and
replayed from one CUDA graph, so that a layer's pages are not in the device's cache and the host takes no
part. Without Triton only sdpa.py is timed.
"""

import math
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from importlib.util import find_spec
from itertools import product
from statistics import geometric_mean
from typing import Any, NamedTuple

import torch

from inference.model.paged.attention import AttentionParams
from inference.model.paged.attn_metadata import AttnMetadata
from inference.model.paged.kernels import timing, verify
from inference.model.paged.kv_pool import PAGE_SIZE, LayerKV
from inference.model.paged.sdpa import sdpa_kernel
from scripts.bench.models import config_of
from scripts.gpu.figure import Figure
from scripts.gpu.section import SectionRun

STAGES, BLOCKS_N, WARPS = (2, 3, 4, 5, 7), (64, 128, 32), (4, 8)
SPLITS = (1, 2, 4, 8, 16, 32)
NUM_FINALISTS = 3
COMPILE_THREADS = 8
MAX_LAYERS, MAX_KV_BYTES = 16, 4 << 30  # of the layers together, if one has less
FREE_SHARE = 0.7  # of the free memory that a workload may take


class KernelVariant(NamedTuple):
    """Arguments of the Triton kernel; the empty variant is the kernel as it is."""

    num_stages: int = 0
    BLOCK_N: int = 0
    num_warps: int = 0

    @property
    def name(self) -> str:
        return (
            f"stages {self.num_stages}, N {self.BLOCK_N}, warps {self.num_warps}" if any(self) else "as it is"
        )

    @property
    def arguments(self) -> dict[str, int]:
        return {name: value for name, value in self._asdict().items() if value}


AS_IT_IS = KernelVariant()
VARIANTS = (
    AS_IT_IS,
    *(KernelVariant(stages, n, warps) for warps, n, stages in product(WARPS, BLOCKS_N, STAGES)),
)


class AttentionStep(NamedTuple):
    """A step of equal rows, as attention sees it.

    rows       how many
    query_len  tokens of each row in the step
    context    tokens of each row in all
    """

    rows: int
    query_len: int
    context: int

    @property
    def name(self) -> str:
        if self.query_len > 1:
            return f"prefill {self.rows} × {self.query_len}, context {self.context}"
        return f"decode {self.rows} × {self.context}"


DECODES = tuple(AttentionStep(rows, 1, context) for context in (1024, 8192, 65536) for rows in (1, 16, 64))
PREFILLS = (AttentionStep(1, 2048, 2048), AttentionStep(1, 2048, 8192))
TYPICAL = (AttentionStep(16, 1, 8192), AttentionStep(64, 1, 1024), AttentionStep(1, 2048, 2048))
SMALL = (AttentionStep(2, 1, 40), AttentionStep(1, 32, 32))


class AttentionInputs(NamedTuple):
    """query (T, H, D), the pages of several layers, and what they share."""

    query: torch.Tensor
    layers: list[LayerKV]
    metadata: AttnMetadata
    scale: float

    def compute(self, kernel: Callable[..., torch.Tensor]) -> torch.Tensor:
        params = AttentionParams(self.scale)
        return [kernel(self.query, kv, self.metadata, params) for kv in self.layers][-1]


def measure_section(run: SectionRun) -> Iterator[Figure]:
    run.engines.free()
    if not (run.bench.device == "cuda" and find_spec("triton")):
        yield from time_plainly(run)
        return
    seconds: dict[KernelVariant, list[float]] = {variant: [] for variant in VARIANTS}
    for step in TYPICAL:
        inputs = make_inputs(run, step)
        compile_variants(inputs, VARIANTS)
        for variant in VARIANTS:
            figure, taken_s = time_variant(run, step, inputs, variant)
            seconds[variant].append(taken_s)
            yield figure
    finalists = sorted(VARIANTS, key=lambda variant: geometric_mean(seconds[variant]))[:NUM_FINALISTS]
    best = finalists[0]
    for step in (*DECODES, *PREFILLS):
        if not fits(run, step):
            yield Figure(step.name, "needs more memory")
            continue
        inputs = make_inputs(run, step)
        for variant in dict.fromkeys((AS_IT_IS, *finalists)):
            yield time_variant(run, step, inputs, variant)[0]
        for splits in SPLITS if step in DECODES else ():
            yield time_variant(run, step, inputs, best, splits)[0]


def time_plainly(run: SectionRun) -> Iterator[Figure]:
    for step in run.choose((*TYPICAL,), SMALL):
        inputs = make_inputs(run, step)
        seconds = time_kernel(inputs, sdpa_kernel, run.bench.device)
        yield make_figure(f"{step.name}, sdpa", step, inputs, seconds)


def time_variant(
    run: SectionRun, step: AttentionStep, inputs: AttentionInputs, variant: KernelVariant, splits: int = 0
) -> tuple[Figure, float]:
    """The figure, and its seconds: infinite for a variant that the device cannot run."""
    from inference.model.paged.kernels import triton

    name = f"{step.name}, {variant.name}" + (f", splits {splits}" if splits else "")
    try:
        with replacing(triton, OverriddenKernel(triton.attend_pages, variant.arguments), splits):
            seconds = time_kernel(inputs, triton.attend, run.bench.device)
    except Exception as error:  # too much shared memory, or a variant that does not compile
        return Figure(name, "failed", remark=f"{type(error).__name__}: {error}"[:100]), math.inf
    return make_figure(name, step, inputs, seconds), seconds


def compile_variants(inputs: AttentionInputs, variants: Iterable[KernelVariant]) -> None:
    """Compile the variants in several threads. A variant that fails will fail again when it is timed."""
    from inference.model.paged.kernels import triton

    recorded = RecordedKernel(triton.attend_pages, [])
    with torch.inference_mode(), replacing(triton, recorded):
        inputs.compute(triton.attend)  # compiles the kernel as it is: threads may only compile after that
    grid, args, options = recorded.launches[0]

    def compile_variant(variant: KernelVariant) -> None:
        with suppress(Exception):
            recorded.kernel.warmup(*args, grid=grid, **options | variant.arguments)

    with ThreadPoolExecutor(COMPILE_THREADS) as pool:
        list(pool.map(compile_variant, variants))


@contextmanager
def replacing(triton: Any, kernel: Any, splits: int = 0) -> Iterator[None]:
    """Within the block, the module `triton` launches `kernel`, with these splits (0: its own)."""
    before = triton.attend_pages, triton.num_splits
    triton.attend_pages = kernel
    if splits:
        triton.num_splits = lambda *args, **options: splits
    try:
        yield
    finally:
        triton.attend_pages, triton.num_splits = before


@dataclass(frozen=True, slots=True)
class OverriddenKernel:
    """A Triton kernel that is launched with other arguments."""

    kernel: Any
    arguments: dict[str, int]

    def __getitem__(self, grid: Any) -> Callable[..., object]:
        return lambda *args, **options: self.kernel[grid](*args, **options | self.arguments)


@dataclass(frozen=True, slots=True)
class RecordedKernel:
    """A Triton kernel whose launches are recorded: grid, arguments and keyword arguments."""

    kernel: Any
    launches: list[tuple[Any, tuple[Any, ...], dict[str, Any]]]

    def __getitem__(self, grid: Any) -> Callable[..., object]:
        def launch(*args: Any, **options: Any) -> object:
            self.launches.append((grid, args, options))
            return self.kernel[grid](*args, **options)

        return launch


def time_kernel(inputs: AttentionInputs, kernel: Callable[..., torch.Tensor], device: str) -> float:
    """Seconds of one layer's attention."""
    call = partial(inputs.compute, kernel)
    with torch.inference_mode():
        seconds = timing.seconds(call, inputs.query.device, uses_graph=device == "cuda")
    return seconds / len(inputs.layers)


def make_figure(name: str, step: AttentionStep, inputs: AttentionInputs, seconds: float) -> Figure:
    H, D = inputs.query.shape[1:]
    if step.query_len > 1:
        visible = step.context - step.query_len / 2  # tokens that a query sees, on average
        operations = 4 * H * D * step.rows * step.query_len * visible
        rate = f"{operations / seconds / 1e12:.1f} TFLOP/s"
    else:
        kv_bytes = 2 * step.rows * step.context * inputs.layers[0].keys[0, 0].nbytes
        rate = f"{kv_bytes / seconds / 1e9:.0f} GB/s"
    return Figure(name, seconds * 1e6, "us", rate)


def fits(run: SectionRun, step: AttentionStep) -> bool:
    config = config_of(run.bench.model)
    size = 2 * step.rows * step.context * config.num_key_value_heads * head_dim_of(config) * 2
    return size < FREE_SHARE * torch.cuda.mem_get_info()[0]


def head_dim_of(config: Any) -> int:
    return int(getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads)


def make_inputs(run: SectionRun, step: AttentionStep) -> AttentionInputs:
    """Random numbers in the attention shape of the measured model, in pages in random order."""
    config = config_of(run.bench.model)
    H, G, D = config.num_attention_heads, config.num_key_value_heads, head_dim_of(config)
    device, dtype = torch.device(run.bench.device), getattr(torch, run.bench.dtype)
    metadata = verify.make_metadata(((step.query_len, step.context),) * step.rows, PAGE_SIZE)
    num_pages = sum(len(span.pages) for span in metadata.spans)

    def normal(*shape: int) -> torch.Tensor:
        return torch.randn(shape, device=device, dtype=dtype)

    layer_bytes = 2 * num_pages * PAGE_SIZE * G * D * dtype.itemsize
    num_layers = max(1, min(MAX_LAYERS, MAX_KV_BYTES // layer_bytes))
    shape = (num_pages, PAGE_SIZE, G, D)
    layers = [LayerKV(normal(*shape), normal(*shape)) for _ in range(num_layers)]
    return AttentionInputs(normal(step.rows * step.query_len, H, D), layers, metadata, D**-0.5)
