"""The settings and their types. Their values and what they mean stand in config.py."""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Annotated, Any, Literal, get_type_hints

from settings.kinds import Amount, Limits, Natural, Port, Positive

SECRETS = ("HUGGINGFACE_ACCESS_TOKEN", "API_KEYS")


class BadSetting(Exception):
    """A setting that is unknown, or whose value breaks a rule; the text is for the user."""


@dataclass(frozen=True, slots=True)
class Settings:
    """config.py's names in small letters."""

    model_name: str
    model_revision: str
    served_names: tuple[str, ...]
    huggingface_access_token: str = field(repr=False)
    trust_remote_code: bool
    gguf_file: str
    allow_pickle: bool
    offline: bool
    cache_dir: str
    tokenizer_config_path: str
    rope_scaling: Literal["none", "linear", "dynamic", "yarn"]
    rope_factor: Annotated[float, Limits(1)]
    host: str
    port: Port
    prometheus_port: Port
    api_keys: tuple[str, ...] = field(repr=False)
    cors_origins: tuple[str, ...]
    max_body_mb: Annotated[float, Limits(0.001)]
    request_timeout: Amount
    drain_seconds: Amount
    validation_workers: Natural
    stream_format: Literal["auto", "ndjson", "sse"]
    log_level: Literal["debug", "info", "warning", "error"]
    json_output: bool
    default_max_tokens: Natural
    default_temperature: Amount
    tool_format: Literal["auto", "llama", "hermes", "mistral", "python"]
    disable_grammar_support: bool
    enable_prefill_logprobs: bool
    watermark_gamma: Annotated[float, Limits(0, 1)]
    watermark_delta: float
    max_concurrent_requests: Positive
    max_client_batch_size: Positive
    max_input_tokens: Natural
    max_best_of: Annotated[int, Limits(1, 64)]
    max_stop_sequences: Annotated[int, Limits(0, 64)]
    max_top_n_tokens: Annotated[int, Limits(0, 20)]
    device: Literal["auto", "cpu", "cuda"]
    layers: str
    num_shard: Natural
    dtype: Literal["auto", "stored", "float32", "bfloat16", "float16"]
    quantise: Literal["none", "int8", "int4"]
    context: Natural
    max_sequences: Positive
    kv_memory_gb: Amount
    max_batch_total_tokens: Natural
    cuda_memory_fraction: Annotated[float, Limits(0.01, 1)]
    max_batch_tokens: Positive
    prefix_caching: bool
    speculate: Annotated[int, Limits(0, 16)]
    seat: Literal["auto", "fused", "packed", "slots", "solo"]
    deterministic: bool
    max_queued_tokens: Positive
    waiting_served_ratio: Amount
    max_waiting_tokens: Natural
    threads: Natural


NAMES = tuple(item.name.upper() for item in fields(Settings))
KINDS: Mapping[str, Any] = {
    name.upper(): kind for name, kind in get_type_hints(Settings, include_extras=True).items()
}
