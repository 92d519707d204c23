"""The settings of config.py with their types."""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Annotated, Any, Literal, get_type_hints

from settings.duration import Duration
from settings.model_list import ServedModels
from settings.replicas import ReplicaSpec
from settings.value_types import Limits, NonNegativeFloat, NonNegativeInt, Port, PositiveInt

DRAFTS_OF_A_MODEL = 4  # of DRAFT_MODEL, if SPECULATE is 0
# Values of QUANTIZE that quantize the weights; the others say how they are stored.
AT_LOAD = ("int8", "int4", "q8_0", "q6_k", "q5_k_m", "q4_k_m", "q4_0")
SECRETS = ("HUGGINGFACE_ACCESS_TOKEN", "API_KEYS", "MODELS", "INFERENCE_SERVER", "REPLICAS")


class BadSetting(Exception):
    """A setting that is unknown or has an invalid value. The message is shown to the user."""


@dataclass(frozen=True, slots=True)
class Settings:
    """The settings of config.py, with their names in lower case."""

    model_name: str
    model_revision: str
    served_names: tuple[str, ...]
    inference_server: str = field(repr=False)
    replicas: ReplicaSpec
    connect_timeout: Annotated[float, Limits(0.001)]
    probe_timeout: Annotated[float, Limits(0.001)]
    models: ServedModels
    keep_alive: Duration
    load_wait_seconds: NonNegativeFloat
    model_swap_seconds: NonNegativeFloat
    max_loaded_models: NonNegativeInt
    huggingface_access_token: str = field(repr=False)
    trust_remote_code: bool
    gguf_file: str
    allow_pickle: bool
    offline: bool
    cache_dir: str
    weight_cache_dir: str
    tokenizer_config_path: str
    chat_template: str
    rope_scaling: Literal["none", "linear", "dynamic", "yarn"]
    rope_factor: Annotated[float, Limits(1)]
    lora_adapters: tuple[str, ...]
    adapter_dirs: str
    max_lora_rank: PositiveInt
    max_loras: PositiveInt
    host: str
    port: Port
    prometheus_port: Port
    root_path: str
    ssl_certfile: str
    ssl_keyfile: str
    api_keys: tuple[str, ...] = field(repr=False)
    allow_open_host: bool
    allowed_hosts: tuple[str, ...]
    cors_origins: tuple[str, ...]
    cors_credentials: bool
    max_body_mb: Annotated[float, Limits(0.001)]
    request_timeout: NonNegativeFloat
    drain_seconds: NonNegativeFloat
    validation_workers: NonNegativeInt
    stream_format: Literal["auto", "ndjson", "sse"]
    log_level: Literal["debug", "info", "warning", "error"]
    json_output: bool
    responses_store: str
    responses_store_mb: Annotated[float, Limits(1)]
    responses_store_days: Annotated[float, Limits(0.001)]
    tuning_dir: str
    max_file_mb: Annotated[float, Limits(0.001)]
    tuning_jobs: PositiveInt
    tuning_processes: NonNegativeInt
    tuning_memory_gb: NonNegativeFloat
    tinker_runs: PositiveInt
    tinker_loss_aliases: Literal[
        "", "stable_reinforce:importance_sampling", "stable_reinforce:ppo", "stable_reinforce:cispo"
    ]
    default_max_tokens: NonNegativeInt
    max_answer_tokens: NonNegativeInt
    default_temperature: NonNegativeFloat
    default_seed: Annotated[int, Limits(-1, 2**63 - 1)]
    tool_format: Literal["auto", "llama", "hermes", "mistral", "python"]
    reasoning_format: Literal["auto", "none"]
    disable_grammar_support: bool
    enable_prefill_logprobs: bool
    watermark_gamma: Annotated[float, Limits(0, 1)]
    watermark_delta: float
    max_concurrent_requests: NonNegativeInt
    max_client_batch_size: PositiveInt
    max_input_tokens: NonNegativeInt
    special_tokens_in: Literal["none", "prompts", "all"]
    max_best_of: Annotated[int, Limits(1, 64)]
    max_stop_sequences: Annotated[int, Limits(0, 64)]
    max_top_n_tokens: Annotated[int, Limits(0, 20)]
    device: Literal["auto", "cpu", "cuda"]
    layers: str
    num_shard: NonNegativeInt
    dtype: Literal["auto", "stored", "float32", "bfloat16", "float16"]
    quantize: Literal["none", "int8", "int4", "q8_0", "q6_k", "q5_k_m", "q4_k_m", "q4_0", "awq", "gptq"]
    imatrix: str
    context: NonNegativeInt
    max_sequences: NonNegativeInt
    kv_memory_gb: NonNegativeFloat
    kv_dtype: Literal["auto", "int8"]
    max_batch_total_tokens: NonNegativeInt
    cuda_memory_fraction: Annotated[float, Limits(0.01, 1)]
    max_batch_tokens: NonNegativeInt
    prefix_caching: bool
    speculate: Annotated[int, Limits(0, 16)]
    draft_model: str
    runner: Literal["auto", "fused", "paged", "contiguous", "uncached"]
    deterministic: bool
    max_queued_tokens: NonNegativeInt
    waiting_served_ratio: NonNegativeFloat
    max_waiting_tokens: NonNegativeInt
    threads: NonNegativeInt

    @property
    def max_drafts(self) -> int:
        """Draft tokens of a step, at most: none where no other row may change a bit of an answer."""
        return 0 if self.deterministic else self.speculate or (DRAFTS_OF_A_MODEL if self.draft_model else 0)

    @property
    def quantize_at_load(self) -> str:
        """How the weights are quantized at load: "none", or one of AT_LOAD."""
        return self.quantize if self.quantize in AT_LOAD else "none"

    @property
    def stored_quantization(self) -> str:
        """The format in which the weights must be stored, "awq" or "gptq"; empty: any."""
        return "" if self.quantize in ("none", *AT_LOAD) else self.quantize


NAMES = tuple(item.name.upper() for item in fields(Settings))
TYPES: Mapping[str, Any] = {
    name.upper(): kind for name, kind in get_type_hints(Settings, include_extras=True).items()
}
