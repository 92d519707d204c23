"""From a model folder to a Backend: loads the model, selects a runner, creates an engine and starts it.

Knows the entry points of all layers below the API.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from inference.backend import Backend
from inference.contrastive_search.search import search, supports_contrastive_search
from inference.contrastive_search.task import start_contrastive_search
from inference.engine.background import BackgroundTask
from inference.engine.chunking import CHUNK_SIZE
from inference.engine.engine import Engine
from inference.engine.engine_thread import EngineThread
from inference.engine.options import EngineOptions
from inference.engine.sampling import triton_sampling
from inference.engine.sampling.sampler import BatchInvariantSampler, Sampler
from inference.engine.scheduling.waiting_served_ratio import WaitingServedRatio
from inference.engine.speculation.draft_model import DraftModel
from inference.engine_stats import CacheConfig
from inference.errors import Internal
from inference.local import BackendModel, LocalBackend
from inference.local.backend import StartSearch
from inference.local.sleep_mode import SleepMode
from inference.lora.check import check_adapter
from inference.lora.gguf_adapter import AdapterFolders
from inference.lora.registry import AdapterRegistry
from inference.metrics import Metrics
from inference.model.batch import Pooling
from inference.model.forward_pass.pooling import embedding_sizes
from inference.model.load import loader
from inference.model.load.formats import model_folder
from inference.model.load.sentence_transformers import EmbeddingMethod, read_embedding_method
from inference.model.load.weights_digest import weights_digest
from inference.model.load_recipe import make_recipe
from inference.model.memory_usage import MemoryUsage, free_adapter_bytes
from inference.model.paged.kv_pool import AUTO
from inference.model.runner_selection.runner_options import BATCH_INVARIANT
from inference.model.runner_selection.select_runner import SelectedRunner
from inference.model.tensor_parallel.executor import MultiProcess, SingleProcess
from inference.model.weights.mapped_model import mapped_file
from inference.open_draft_model import DraftSource, open_draft_model
from inference.process.memory.malloc import trim_heap
from inference.structured_output import GrammarChecker, GrammarCompiler
from settings.groups import BackendSettings, EngineSettings, ModelSettings


@dataclass(frozen=True, slots=True)
class LoadedEngine:
    """A loaded model with a runner whose logits were checked, and an engine that is not started yet.

    executor          the processes that compute the model; closed by the Backend, or by a caller without one
    engine_thread     the thread on which the model was loaded and must compute
    folder            the folder of the model's files
    embedding_method  how the model makes embeddings
    """

    loaded_model: loader.LoadedModel
    selected_runner: SelectedRunner
    engine: Engine
    executor: SingleProcess | MultiProcess
    engine_thread: EngineThread
    folder: Path
    model_settings: ModelSettings
    engine_settings: EngineSettings
    weights_digest: str
    embedding_method: EmbeddingMethod

    @property
    def cache_config(self) -> CacheConfig:
        runner, kv_dtype = self.selected_runner.runner, self.engine_settings.kv_dtype
        has_gpu = self.loaded_model.device == "cuda"
        return CacheConfig(
            page_size=runner.page_size,
            num_pages=runner.kv_capacity // runner.page_size,
            dtype=self.loaded_model.dtype if kv_dtype == AUTO else kv_dtype,
            prefix_caching=self.engine.core.kv_cache_manager.prefix_caching,
            gpu_memory_fraction=self.model_settings.cuda_memory_fraction if has_gpu else None,
        )

    def make_sleep_mode(self) -> SleepMode | None:
        """What puts the model to sleep; None: it is not on the CPU alone, in this process."""
        model = self.loaded_model
        if model.device != "cpu" or not isinstance(self.executor, SingleProcess):
            return None
        file = mapped_file(model.model)
        runner = self.selected_runner.runner
        return SleepMode(self.engine, self.engine_thread, runner, file.memory if file else None)

    def memory_in_use(self, gpus: Sequence[int], reset_peaks: bool = False) -> list[MemoryUsage]:
        """The memory that each process of the model has in use, this process first.

        gpus: indices of the GPUs to measure. reset_peaks: restart the measurement of peaks.
        Waits for the engine's thread; an engine that is not started runs its pending work first.
        Raises ServerError once the engine accepts no more work.
        """
        background_work = self.executor.measure_memory(
            self.loaded_model.model, self.selected_runner.runner, gpus, reset_peaks
        )
        pending = self.engine.run(BackgroundTask(background_work))
        if not self.engine.started:
            self.engine_thread.run(self.engine.run_until_idle)
        return pending.result()


def open_engine(
    folder: Path,
    model_settings: ModelSettings,
    engine_settings: EngineSettings,
    draft_source: DraftSource | None = None,
) -> LoadedEngine:
    """Load the model in `folder` or the GGUF file at that path, select its runner, and create an engine.

    draft_source: a model that writes drafts for it. Raises ServerError if a model cannot be loaded or does
    not fit.
    """
    recipe = make_recipe(folder, model_settings, engine_settings)
    executor = MultiProcess(recipe) if model_settings.num_shard > 1 else SingleProcess(recipe)
    engine_thread = EngineThread("engine")
    loaded_model, selected_runner = engine_thread.run(executor.start)
    sampler = (BatchInvariantSampler if engine_settings.deterministic else Sampler)(loaded_model.vocab)
    draft_model = (
        engine_thread.run(partial(open_draft_model, draft_source, loaded_model, sampler))
        if draft_source
        else None
    )
    engine_thread.run(trim_heap)  # return memory that the runner checks have freed
    model = loaded_model.model
    engine_thread.run(partial(triton_sampling.warm_up, model.device, model.dtype, loaded_model.vocab))
    runner = executor.wrap_runner(selected_runner.runner)
    needs_chunks = engine_settings.deterministic and selected_runner.runner_kind not in BATCH_INVARIANT
    embedding_method = read_embedding_method(model_folder(folder))
    options = engine_options(
        engine_settings, CHUNK_SIZE if needs_chunks else 0, draft_model, embedding_method.pooling
    )
    return LoadedEngine(
        loaded_model=loaded_model,
        selected_runner=selected_runner,
        engine=Engine(runner, sampler, options),
        executor=executor,
        engine_thread=engine_thread,
        folder=model_folder(folder),
        model_settings=model_settings,
        engine_settings=engine_settings,
        weights_digest=weights_digest(folder),
        embedding_method=embedding_method,
    )


def engine_options(
    settings: EngineSettings, prefill_chunk_size: int, draft_model: DraftModel | None, pooling: Pooling
) -> EngineOptions:
    """The options of an engine, as the settings say. The other arguments: see EngineOptions."""
    ratio = settings.waiting_served_ratio
    return EngineOptions(
        max_batch_tokens=settings.max_batch_tokens,
        max_queued_tokens=settings.max_queued_tokens,
        admission_policy=WaitingServedRatio(ratio, settings.max_waiting_tokens) if ratio else None,
        prefix_caching=settings.prefix_caching,
        speculate=settings.speculate,
        prefill_chunk_size=prefill_chunk_size,
        draft_model=draft_model,
        pooling=pooling,
    )


def open_backend(
    loaded_engine: LoadedEngine, settings: BackendSettings, *, model_id: str, metrics: Metrics
) -> Backend:
    """Start the engine and serve with it. metrics: gets its state and the times of the answers."""
    engine, executor = loaded_engine.engine, loaded_engine.executor
    model = describe_model(loaded_engine, model_id)
    model_metrics = metrics.observe_engine(
        engine.stats,
        model=model_id,
        context=model.context,
        cache_config=loaded_engine.cache_config,
        max_loras=loaded_engine.engine_settings.max_loras,
    )
    engine.set_step_listener(model_metrics.record_step)
    engine.start(loaded_engine.engine_thread)
    checker = GrammarChecker()

    def close() -> None:
        checker.close()
        executor.close()

    executor.on_lost(lambda reason: engine.fail(Internal(reason)))
    return LocalBackend(
        engine,
        model,
        settings,
        compiler=GrammarCompiler(model.tokenizer, model.vocab, model.eos_token_ids, checker),
        metrics=model_metrics,
        contrastive=search_starter(loaded_engine),
        adapters=create_adapter_registry(loaded_engine),
        on_close=close,
    )


def describe_model(loaded_engine: LoadedEngine, model_id: str) -> BackendModel:
    loaded_model, runner = loaded_engine.loaded_model, loaded_engine.selected_runner.runner
    method = loaded_engine.embedding_method
    has_embeddings = runner.capabilities.pooling and not method.why_not
    return BackendModel(
        id=model_id,
        tokenizer=loaded_model.tokenizer,
        context=runner.context,
        vocab=loaded_model.vocab,
        eos_token_ids=loaded_model.stop_token_ids,
        is_encoder_decoder=loaded_model.is_encoder_decoder,
        embedding_sizes=embedding_sizes(loaded_model.model) if has_embeddings else (),
        embedding_method=method,
        details={
            "dtype": loaded_model.dtype,
            "device": loaded_model.device,
            "architecture": type(loaded_model.model).__name__,
            "quantize": loaded_engine.model_settings.quantize,
            "kv_dtype": loaded_engine.engine_settings.kv_dtype,
            "weights": loaded_engine.weights_digest,
        },
    )


def search_starter(loaded_engine: LoadedEngine) -> StartSearch | None:
    """What starts a contrastive search; None: the model does not support it."""
    model = loaded_engine.loaded_model.model
    if loaded_engine.selected_runner.runner_kind == "uncached" or not supports_contrastive_search(model):
        return None
    run_search = partial(loaded_engine.executor.run, search, model)
    return partial(start_contrastive_search, loaded_engine.engine, run_search)


def create_adapter_registry(loaded_engine: LoadedEngine) -> AdapterRegistry:
    """The adapters of the model; none is loaded yet."""
    max_adapters = loaded_engine.engine_settings.max_loras
    max_rank = loaded_engine.engine_settings.max_lora_rank
    engine, executor, model = loaded_engine.engine, loaded_engine.executor, loaded_engine.loaded_model.model

    def need_bytes(folder: Path) -> int:
        checked = check_adapter(model, folder, max_rank)
        return checked.num_values * int(model.dtype.itemsize)

    def run_task(task: Callable[..., Any], *args: Any) -> Callable[[], Any]:
        return engine.run(BackgroundTask(executor.run(task, model, *args))).result

    return AdapterRegistry(
        run_task,
        to_peft=AdapterFolders(model.config.get_text_config()).folder_of,
        need_bytes=need_bytes,
        free_bytes=partial(free_adapter_bytes, model, loaded_engine.selected_runner.runner),
        until_unused=engine.seconds_until_adapter_is_unused,
        max_adapters=max_adapters,
        max_rank=max_rank,
    )
