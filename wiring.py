"""The settings as each floor wants them: what is planned, loaded and served, in the floors' own words.

Knows every setting and each floor's door. Says nothing and decides nothing; launch.py tells the story.
"""

from functools import partial
from pathlib import Path

from ahead import hub_of
from api.settings import AppSettings
from checks import layers, memory
from checks.fetch import fetch
from checks.fetch.plan import begun
from checks.fetch.progress import Progress
from checks.heads.gguf import by_heads
from checks.machine import Machine, overhead
from checks.plan import Asked, Plan, plan
from checks.source.repository import Repository
from inference.backend import Backend
from inference.engine.admission import Admission
from inference.metrics import Metrics
from inference.model.place import device_of, limit_gpu
from inference.model.scaling import PLAIN, Scaling
from inference.opening import Opened, nothing, open_backend, open_engine
from settings.fields import Settings


def plan_of(settings: Settings, found: Repository, machine: Machine) -> Plan:
    """What serving the model will take. Raises Refused."""
    hub = hub_of(settings)
    whole = by_heads(found, hub) if found.gguf else found
    repository = begun(whole, hub)
    device, places = chosen_places(settings, repository, machine)
    return plan(repository, asked_of(settings, machine, device, places))


def asked_of(settings: Settings, machine: Machine, device: str, places: tuple[str, ...]) -> Asked:
    """What is asked of the model."""
    return Asked(
        device=device,
        dtype=settings.dtype,
        bfloat16=machine.bfloat16,
        context=settings.context,
        rows=settings.max_sequences,
        kv=int(settings.kv_memory_gb * 1e9),
        code=settings.trust_remote_code,
        tokens=settings.max_batch_total_tokens,
        shards=shards_of(settings, device, machine),
        places=places,
        quantise=settings.quantise,
        seat=settings.seat,
        alone=settings.deterministic,
        scaling=scaling_of(settings),
        tokenizer_config=tokenizer_config_of(settings),
        batch=settings.max_batch_tokens,
        overhead=overhead.known(device),
    )


def fetched(settings: Settings, planned: Plan) -> Path:
    """The folder of the model's files, or its GGUF file, what is missing fetched. Raises Refused."""
    source = planned.repository
    return fetch(source, hub_of(settings), Progress(as_json=settings.json_output)) / source.gguf


def load(settings: Settings, planned: Plan, machine: Machine) -> Opened:
    """Fetch what is missing and open the model. Raises Refused or ServerError."""
    assert planned.measure is not None
    folder = fetched(settings, planned)
    share = memory.budget(planned, machine)
    return open_engine(
        folder,
        dtype=planned.measure.dtype,
        device=planned.device,
        layers=planned.places,
        quantise=planned.quantise,
        context=share.context,
        max_rows=settings.max_sequences,
        kv_bytes=share.kv,
        max_area=settings.max_batch_total_tokens or None,
        max_batch_tokens=settings.max_batch_tokens,
        max_queued_tokens=settings.max_queued_tokens,
        reuse=settings.prefix_caching,
        drafts=settings.speculate,
        seat=settings.seat,
        deterministic=settings.deterministic,
        admission=Admission(settings.waiting_served_ratio, settings.max_waiting_tokens),
        trust_remote_code=settings.trust_remote_code,
        scaling=scaling_of(settings),
        tokenizer_config=tokenizer_config_of(settings),
        allow_pickle=settings.allow_pickle,
        ranks=planned.shards,
        prepare=partial(limit_gpu, settings.cuda_memory_fraction) if planned.device == "cuda" else nothing,
    )


def backend_of(settings: Settings, opened: Opened, metrics: Metrics) -> Backend:
    """The opened model, for the API."""
    return open_backend(
        opened,
        model_id=public_name(settings.model_name),
        max_prompt=settings.max_input_tokens or None,
        tool_format=settings.tool_format,
        metrics=metrics,
    )


def app_settings(settings: Settings, version: str) -> AppSettings:
    return AppSettings(
        version=version,
        api_keys=settings.api_keys,
        cors_origins=settings.cors_origins,
        max_body_bytes=round(settings.max_body_mb * 1e6),
        stream_format=settings.stream_format,
        model_aliases=settings.served_names,
        max_tokens=settings.default_max_tokens or None,
        temperature=settings.default_temperature,
        deadline_s=settings.request_timeout or None,
        max_concurrent=settings.max_concurrent_requests,
        max_best_of=settings.max_best_of,
        max_stop_sequences=settings.max_stop_sequences,
        max_top_n_tokens=settings.max_top_n_tokens,
        max_client_batch=settings.max_client_batch_size,
        validation_workers=settings.validation_workers,
        max_input_tokens=settings.max_input_tokens or None,
        grammars=not settings.disable_grammar_support,
        watermark_gamma=settings.watermark_gamma,
        watermark_delta=settings.watermark_delta,
        prefill_logprobs=settings.enable_prefill_logprobs,
    )


def chosen_places(
    settings: Settings, repository: Repository, machine: Machine
) -> tuple[str, tuple[str, ...]]:
    """ "cpu" or "cuda", and the device of each layer where LAYERS splits the model. Raises Refused."""
    if settings.layers:
        return layers.placed(settings.layers, repository.config, gpus=len(machine.gpus))
    return device_of(settings.device), ()


def shards_of(settings: Settings, device: str, machine: Machine) -> int:
    """How many processes share the model; 0 asks for one for each GPU."""
    return settings.num_shard or max(1, len(machine.gpus) if device == "cuda" else 1)


def scaling_of(settings: Settings) -> Scaling:
    """A factor alone means linear, as it does for TGI."""
    if settings.rope_scaling == "none":
        return PLAIN if settings.rope_factor == 1 else Scaling("linear", settings.rope_factor)
    return Scaling(settings.rope_scaling, settings.rope_factor)


def tokenizer_config_of(settings: Settings) -> Path | None:
    return Path(settings.tokenizer_config_path) if settings.tokenizer_config_path else None


def public_name(model: str) -> str:
    """What clients call the model: its name on the Hub, or the last part of a folder's path."""
    return Path(model).expanduser().resolve().name if model.startswith(("/", ".", "~")) else model
