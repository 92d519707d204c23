"""The options to run a model, the fastest of each kind first.

Knows the runners and their memory cost; select_runner.py verifies which of them are correct.
"""

from collections.abc import Callable, Iterator
from functools import cache, partial
from typing import Any, NamedTuple

from transformers import PreTrainedModel

from inference.model.batch import UnsupportedModel
from inference.model.contiguous.encoder_decoder import EncoderDecoderRunner
from inference.model.contiguous.runner import ContiguousRunner
from inference.model.fused.llama_model import LlamaSpec
from inference.model.fused.module_map import map_modules
from inference.model.fused.runner import FusedRunner
from inference.model.fused.verify import extract_verified_spec
from inference.model.kv_cost import KVCost
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
from inference.model.runner_selection.benchmark import ROWS, SLOW_S, BuildRunner
from inference.model.runner_selection.requirements import RunnerLimits, RunnerRules, RunnerSize


class ContiguousMode(NamedTuple):
    """How a ContiguousRunner computes."""

    chunked_prefill: bool
    batched: bool


CONTIGUOUS_MODES = {
    ContiguousMode(chunked_prefill=True, batched=True): "contiguous, chunked prefill",
    ContiguousMode(chunked_prefill=False, batched=True): "contiguous",
    ContiguousMode(chunked_prefill=True, batched=False): "contiguous, unbatched, chunked prefill",
    ContiguousMode(chunked_prefill=False, batched=False): "contiguous, unbatched",
}

# Kinds whose logits of a row are bitwise equal for every chunking and every batch.
BATCH_INVARIANT = frozenset({"fused"})
SLOW_FUSED_S = 0.01  # the other runners' overhead per step, without reading weights, is longer


class RunnerOption(NamedTuple):
    """An option to run a model.

    kind     "fused", "paged" or "contiguous"
    name     name in the log
    build    builds a runner of a size; raises UnsupportedModel
    kv_cost  returns the KV cost of a runner that has computed a step
    slow_s   seconds: if this option is correct and its one-token step is slower, no later option is faster
    """

    kind: str
    name: str
    build: BuildRunner
    kv_cost: Callable[[Any], KVCost]
    slow_s: float = SLOW_S


def runner_options(
    model: PreTrainedModel,
    limits: RunnerLimits,
    rules: RunnerRules,
    tolerance: float,
    errors: RememberedErrors,
) -> Iterator[RunnerOption]:
    """Yield the options that the rules allow.

    tolerance  largest accepted difference of two runners, in standard deviations of the logits
    errors     of the model
    """
    is_on_cpu, kv_dtype = model.device.type == "cpu", rules.kv_dtype
    if kv_dtype != AUTO and not is_on_cpu:  # pages of 8 bits are only on a CPU
        return
    note = "" if kv_dtype == AUTO else f", KV cache in {kv_dtype}"
    if is_on_cpu and "fused" in rules.kinds:
        get_spec = cache(partial(extract_verified_spec, model, limits.context, tolerance, kv_dtype, errors))
        build = partial(build_fused_runner, model, get_spec, kv_dtype)
        yield RunnerOption("fused", f"fused{note}", build, paged_kv_cost, SLOW_FUSED_S)
    if "paged" in rules.kinds and not rules.deterministic:
        yield from paged_options(model, tolerance, limits.max_batch_tokens, kv_dtype, note)
    if "contiguous" in rules.kinds and kv_dtype == AUTO:
        yield from contiguous_options(model, rules.deterministic)


class PagedKernels(NamedTuple):
    """What a paged runner computes with. The getters select or compile; they may raise UnsupportedModel.

    get_kernel    the attention kernel
    get_store     writes keys and values into pages
    get_layers    compiled layers; None: the model's own layers
    rotary_store  for compiled layers that leave the rotary embedding to it
    """

    get_kernel: Callable[[], SelectedKernel]
    get_store: Callable[[], StoreKernel]
    get_layers: Callable[[], CompiledLayers] | None = None
    rotary_store: RotaryStoreKernel = rotate_and_store


def paged_options(
    model: PreTrainedModel, tolerance: float, max_batch_tokens: int, kv_dtype: str, note: str
) -> Iterator[RunnerOption]:
    """The fastest first. Kernels are selected at the first trial."""
    plain = PagedKernels(cache(partial(select_kernel, model)), cache(partial(select_store, model)))

    def option(name: str, kernels: PagedKernels, slow_s: float = 0.0) -> RunnerOption:
        build = partial(build_paged_runner, model, kernels, tolerance, max_batch_tokens, kv_dtype)
        return RunnerOption("paged", name, build, paged_kv_cost, slow_s)

    if is_single_gpu(model):
        if rotary_store := select_rotary_store(model):
            get_layers = cache(partial(CompiledLayers, model, fuses_rotary=True))
            fused_rotary = plain._replace(get_layers=get_layers, rotary_store=rotary_store)
            yield option("paged, compiled layers, fused rotary embedding", fused_rotary)
        compiled = plain._replace(get_layers=cache(partial(CompiledLayers, model)))
        yield option("paged, compiled layers", compiled)
    yield option(f"paged{note}", plain, SLOW_S)


def contiguous_options(model: PreTrainedModel, deterministic: bool) -> Iterator[RunnerOption]:
    for mode, name in CONTIGUOUS_MODES.items():
        if not (deterministic and mode.batched):
            build = partial(build_contiguous_runner, model, mode)
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
    model: PreTrainedModel, get_spec: Callable[[], LlamaSpec], kv_dtype: str, size: RunnerSize
) -> FusedRunner:
    size = size._replace(context=min(size.context, size.kv_capacity))
    pool = create_pool(size, kv_dtype=kv_dtype)
    return FusedRunner(model, get_spec(), pool, max_sequences=size.max_sequences, context=size.context)


def build_paged_runner(
    model: PreTrainedModel,
    kernels: PagedKernels,
    tolerance: float,
    max_batch_tokens: int,
    kv_dtype: str,
    size: RunnerSize,
) -> PagedRunner:
    """Build a paged runner, with CUDA graphs where the device and the kernel support them."""
    selected, get_layers = kernels.get_kernel(), kernels.get_layers
    on_single_gpu = is_single_gpu(model)
    runner_class = GraphRunner if on_single_gpu and selected.supports_cuda_graphs else PagedRunner
    size = size._replace(context=min(size.context, size.kv_capacity))
    runner = runner_class(
        model,
        create_pool(size, selected.page_size, kernels.get_store(), kernels.rotary_store, kv_dtype),
        max_sequences=size.max_sequences,
        context=size.context,
        kernel=selected.kernel,
        overlap=on_single_gpu,
        create_attention=partial(CompiledAttention, layers=get_layers()) if get_layers else PagedAttention,
    )
    runner.probe()
    if isinstance(runner, GraphRunner):
        runner.capture_graphs(CudaGraphRecorder(model.device), tolerance, max_batch_tokens)
    return runner


def build_contiguous_runner(
    model: PreTrainedModel, mode: ContiguousMode, size: RunnerSize
) -> ContiguousRunner:
    runner_class = EncoderDecoderRunner if model.config.is_encoder_decoder else ContiguousRunner
    return runner_class(
        model,
        max_sequences=size.max_sequences,
        context=size.context,
        kv_capacity=size.kv_capacity,
        chunked_prefill=mode.chunked_prefill,
        batched=mode.batched,
    )


def create_pool(
    size: RunnerSize,
    page_size: int = PAGE_SIZE,
    store: StoreKernel = store_by_index,
    rotary_store: RotaryStoreKernel = rotate_and_store,
    kv_dtype: str = AUTO,
) -> KVPool:
    """A pool of kv_capacity tokens, and at least of one row of the whole context.

    Each row of a trial or a benchmark has a page; an engine's rows wait for free pages.
    """
    whole_context = -(-size.context // page_size)
    num_pages = max(size.kv_capacity // page_size, whole_context, min(size.max_sequences, ROWS))
    return KVPool(num_pages, page_size, store, size.window_groups, rotary_store, kv_dtype)


def paged_kv_cost(runner: PagedRunner | FusedRunner) -> KVCost:
    return runner.pool.cost()


def contiguous_kv_cost(runner: ContiguousRunner) -> KVCost:
    per_token, per_row = runner.memory.bytes_per_column(), runner.memory.bytes_per_row()
    if runner.capabilities.encoder_decoder:
        return KVCost(2 * per_token)  # an encoder token takes as many bytes as a decoder token
    return KVCost(per_token, per_row)
