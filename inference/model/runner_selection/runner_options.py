"""The options to run a model, the fastest of each kind first.

Knows the runners and their memory cost; select_runner.py verifies which of them are correct.
"""

from collections.abc import Callable, Iterator
from functools import cache, partial
from typing import Any, NamedTuple

from transformers import PreTrainedModel

from inference.model.batch import Runner, UnsupportedModel
from inference.model.contiguous.encoder_decoder import EncoderDecoderRunner
from inference.model.contiguous.runner import ContiguousRunner
from inference.model.fused.llama_model import LlamaSpec
from inference.model.fused.module_map import map_modules
from inference.model.fused.runner import FusedRunner
from inference.model.fused.verify import extract_verified_spec
from inference.model.kv_cost import KVCost, WindowGroup
from inference.model.paged.attention import PagedAttention
from inference.model.paged.compiled_layers import CompiledAttention, CompiledLayers
from inference.model.paged.cuda import CudaGraphRecorder, is_single_gpu
from inference.model.paged.cuda_graphs import GraphRunner
from inference.model.paged.kernels.select import SelectedKernel, select_kernel
from inference.model.paged.kernels.store import select_rotary_store, select_store
from inference.model.paged.kv_pool import (
    AUTO,
    PAGE_SIZE,
    KVPool,
    RotaryStoreKernel,
    StoreKernel,
    rotate_and_store,
    store_by_index,
)
from inference.model.paged.runner import PagedRunner
from inference.model.remembered_trials import RememberedErrors
from inference.model.runner_selection.benchmark import ROWS, SLOW_S

ContiguousMode = tuple[bool, bool]  # (chunked_prefill, batched) of a ContiguousRunner
CONTIGUOUS_MODES: dict[ContiguousMode, str] = {
    (True, True): "contiguous, chunked prefill",
    (False, True): "contiguous",
    (True, False): "contiguous, unbatched, chunked prefill",
    (False, False): "contiguous, unbatched",
}

# Kinds whose logits of a row are bitwise equal for every chunking and every batch.
BATCH_INVARIANT = frozenset({"fused"})
SLOW_FUSED_S = 0.01  # the other runners' overhead per step, without reading weights, is longer


class RunnerOption(NamedTuple):
    """An option to run a model.

    kind     "fused", "paged" or "contiguous"
    name     name in the log
    build    builds a runner for max_sequences, context and kv_capacity, and for window_groups if its KV cost
             has windows; raises UnsupportedModel
    kv_cost  returns the KV cost of a runner that has computed a step
    slow_s   seconds: if this option is correct and its one-token step is slower, no later option is faster
    """

    kind: str
    name: str
    build: Callable[..., Runner]
    kv_cost: Callable[[Any], KVCost]
    slow_s: float = SLOW_S


def runner_options(
    model: PreTrainedModel,
    *,
    context: int,
    deterministic: bool,
    tolerance: float,
    max_batch_tokens: int,
    kv_dtype: str,
    errors: RememberedErrors,
) -> Iterator[RunnerOption]:
    """Yield the options to try.

    context           most tokens of a sequence
    deterministic     only options where the rows of a batch change no bit of each other
    tolerance         largest accepted difference of two runners, in standard deviations of the logits
    max_batch_tokens  tokens of the largest step
    kv_dtype          of keys and values; pages of 8 bits are only on a CPU
    errors            of the model
    """
    is_on_cpu, note = model.device.type == "cpu", "" if kv_dtype == AUTO else f", KV cache in {kv_dtype}"
    if kv_dtype != AUTO and not is_on_cpu:
        return
    if is_on_cpu:
        get_spec = cache(partial(extract_verified_spec, model, context, tolerance, kv_dtype, errors))
        build_native = partial(build_fused_runner, model, get_spec, kv_dtype=kv_dtype)
        yield RunnerOption("fused", f"fused{note}", build_native, paged_kv_cost, SLOW_FUSED_S)
    if not deterministic:
        yield from paged_options(model, tolerance, max_batch_tokens, kv_dtype, note)
    if kv_dtype == AUTO:
        yield from contiguous_options(model, deterministic)


def paged_options(
    model: PreTrainedModel, tolerance: float, max_batch_tokens: int, kv_dtype: str, note: str
) -> Iterator[RunnerOption]:
    """The fastest first. Kernels are selected at the first trial, which may raise UnsupportedModel."""
    get_kernel, get_store = cache(partial(select_kernel, model)), cache(partial(select_store, model))
    build_paged = partial(
        build_paged_runner, model, get_kernel, get_store, tolerance, max_batch_tokens, kv_dtype=kv_dtype
    )
    if is_single_gpu(model):
        if rotary_store := select_rotary_store(model):
            get_layers = cache(partial(CompiledLayers, model, fuses_rotary=True))
            build_fused = partial(build_paged, get_layers=get_layers, rotary_store=rotary_store)
            name = "paged, compiled layers, fused rotary embedding"
            yield RunnerOption("paged", name, build_fused, paged_kv_cost, slow_s=0.0)
        build_compiled = partial(build_paged, get_layers=cache(partial(CompiledLayers, model)))
        yield RunnerOption("paged", "paged, compiled layers", build_compiled, paged_kv_cost, slow_s=0.0)
    yield RunnerOption("paged", f"paged{note}", build_paged, paged_kv_cost)


def contiguous_options(model: PreTrainedModel, deterministic: bool) -> Iterator[RunnerOption]:
    runner_class = EncoderDecoderRunner if model.config.is_encoder_decoder else ContiguousRunner
    for (chunked_prefill, batched), name in CONTIGUOUS_MODES.items():
        if not (deterministic and batched):
            build = partial(runner_class, model, chunked_prefill=chunked_prefill, batched=batched)
            yield RunnerOption("contiguous", name, build, contiguous_kv_cost)


def supports_fused(model: PreTrainedModel) -> bool:
    """Whether the fused runner may support the model once its weights are packed native matrices."""
    if model.device.type == "cuda":
        return False
    try:
        map_modules(model)
    except (UnsupportedModel, AttributeError, NotImplementedError):
        return False
    return True


def build_fused_runner(
    model: PreTrainedModel,
    get_spec: Callable[[], LlamaSpec],
    *,
    max_sequences: int,
    context: int,
    kv_capacity: int,
    window_groups: tuple[WindowGroup, ...] = (),
    kv_dtype: str = AUTO,
) -> FusedRunner:
    context = min(context, kv_capacity)
    pool = create_pool(max_sequences, context, kv_capacity, window_groups=window_groups, kv_dtype=kv_dtype)
    return FusedRunner(model, get_spec(), pool, max_sequences=max_sequences, context=context)


def build_paged_runner(
    model: PreTrainedModel,
    get_kernel: Callable[[], SelectedKernel],
    get_store: Callable[[], StoreKernel],
    tolerance: float,
    max_batch_tokens: int,
    *,
    max_sequences: int,
    context: int,
    kv_capacity: int,
    window_groups: tuple[WindowGroup, ...] = (),
    get_layers: Callable[[], CompiledLayers] | None = None,
    rotary_store: RotaryStoreKernel = rotate_and_store,
    kv_dtype: str = AUTO,
) -> PagedRunner:
    """Build a paged runner, with CUDA graphs where the device and the kernel support them."""
    kernel = get_kernel()
    attention = partial(CompiledAttention, layers=get_layers()) if get_layers else PagedAttention
    on_single_gpu = is_single_gpu(model)
    runner_class = GraphRunner if on_single_gpu and kernel.supports_cuda_graphs else PagedRunner
    context = min(context, kv_capacity)
    runner = runner_class(
        model,
        create_pool(
            max_sequences,
            context,
            kv_capacity,
            kernel.page_size,
            get_store(),
            window_groups,
            rotary_store,
            kv_dtype,
        ),
        max_sequences=max_sequences,
        context=context,
        kernel=kernel.kernel,
        overlap=on_single_gpu,
        create_attention=attention,
    )
    runner.probe()
    if isinstance(runner, GraphRunner):
        runner.capture_graphs(CudaGraphRecorder(model.device), tolerance, max_batch_tokens)
    return runner


def create_pool(
    max_sequences: int,
    context: int,
    kv_capacity: int,
    page_size: int = PAGE_SIZE,
    store: StoreKernel = store_by_index,
    window_groups: tuple[WindowGroup, ...] = (),
    rotary_store: RotaryStoreKernel = rotate_and_store,
    kv_dtype: str = AUTO,
) -> KVPool:
    """A pool of kv_capacity tokens, and at least of one row of the whole context.

    Each row of a trial or a benchmark has a page; an engine's rows wait for free pages.
    """
    num_pages = max(kv_capacity // page_size, -(-context // page_size), min(max_sequences, ROWS))
    return KVPool(num_pages, page_size, store, window_groups, rotary_store, kv_dtype)


def paged_kv_cost(runner: PagedRunner | FusedRunner) -> KVCost:
    return runner.pool.cost()


def contiguous_kv_cost(runner: ContiguousRunner) -> KVCost:
    per_token, per_row = runner.memory.bytes_per_column(), runner.memory.bytes_per_row()
    if runner.capabilities.encoder_decoder:
        return KVCost(2 * per_token)  # an encoder token takes as many bytes as a decoder token
    return KVCost(per_token, per_row)
