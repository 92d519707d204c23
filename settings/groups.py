"""The groups of settings that the packages get as one argument: of model, engine, server, tuning and others.

A field has the setting's name in lower case. A suffix shows that the unit differs (`kv_memory_bytes`). None
replaces a 0 that means "no limit". A default is the value in config.py.
"""

import os
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, Literal, TypeVar

from settings.schema import Settings

OFF = "off"  # value of TUNING_DIR and RESPONSES_STORE
StreamFormat = Literal["auto", "ndjson", "sse"]
# in no text, in prompts that are one text, or in these and in the messages of chats
SpecialTokensIn = Literal["none", "prompts", "all"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelSettings:
    """How a model is loaded.

    device, dtype  torch's names
    layer_devices  device of each layer if LAYERS splits the model; empty: all layers on `device`
    num_shard      number of tensor-parallel processes, this one included
    """

    device: str
    dtype: str
    layer_devices: tuple[str, ...] = ()
    quantize: str = "none"
    imatrix: str = ""
    num_shard: int = 1
    trust_remote_code: bool = False
    allow_pickle: bool = False
    rope_scaling: str = "none"
    rope_factor: float = 1.0
    tokenizer_config_path: str = ""
    chat_template: str = ""
    cuda_memory_fraction: float = 1.0
    weight_cache_dir: str = ""

    @property
    def weights_device(self) -> str:
        """Where the weights are loaded: a GPU need not have room for them before they are quantized."""
        return self.device if self.quantize == "none" else "cpu"


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineSettings:
    """How the engine runs the model.

    context                 most tokens of a sequence
    kv_memory_bytes         bytes for the KV cache of all sequences, per process
    max_batch_total_tokens  most tokens of all sequences together; None: as many as kv_memory_bytes holds
    kv_dtype                of keys and values: "auto", the model's, or "int8"
    max_lora_rank           largest rank of an adapter
    max_loras               adapters whose weights are held in memory, at most
    """

    context: int
    max_sequences: int
    kv_memory_bytes: int
    max_batch_tokens: int
    max_queued_tokens: int
    max_batch_total_tokens: int | None = None
    kv_dtype: str = "auto"
    prefix_caching: bool = True
    speculate: int = 0
    runner: str = "auto"
    deterministic: bool = False
    waiting_served_ratio: float = 0.0
    max_waiting_tokens: int = 20
    max_lora_rank: int = 256
    max_loras: int = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class BackendSettings:
    """How the backend reads requests and the model's answers.

    max_input_tokens   of a prompt; None: as many as leave room for one token in the context
    special_tokens_in  the texts in which the spelling of a special token is that token
    tool_format        how the model writes tool calls: "auto" or one of tool_parsers.formats.CALL_FORMATS
    reasoning_format   "auto": apart from the text, as the chat template marks it; "none": part of the text
    max_answer_tokens  of an answer: requests for more get so many; None: no limit of its own
    default_seed       of requests that set none; None: a random one for each
    """

    max_input_tokens: int | None = None
    special_tokens_in: SpecialTokensIn = "prompts"
    tool_format: str = "auto"
    reasoning_format: str = "auto"
    max_answer_tokens: int | None = None
    default_seed: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerSettings:
    """How the HTTP server answers. By default it requires no key, and the model sets the limits.

    version                  version of the server, shown by / and /version; empty: unknown
    has_link                 routes for the server that started this process, see api/link.py
    api_keys                 a request needs one of them, unless api_keys.is_open; empty: none needs a key
    host                     address or name that the server listens on
    allowed_hosts            names that the Host header may have beside private ones; "*": any
    cors_origins             origins whose pages may call the server; "*": all
    cors_credentials         those pages may send the browser's credentials
    root_path                path prefix of a reverse proxy; empty: none
    max_body_bytes           largest request body
    max_file_bytes           largest uploaded file
    stream_format            format of /inference/... streams if no header selects one; "auto" is ndjson
    request_timeout_s        seconds after which an answer is cut off; None: never
    default_max_tokens       of an answer if its request sets no limit; None: as many as the context holds
    default_seed             of requests that set none; None: a random one for each
    default_temperature      of requests that set none; in Llama Stack, 1 without a strategy is greedy
    max_concurrent_requests  that run or wait at the same time; further ones get status 429
    max_best_of, max_stop_sequences, max_top_n_tokens, max_client_batch_size   limits of one request
    validation_workers       threads that run the Flask app
    max_input_tokens         of a prompt; None: as many as leave room for one token in the context
    lora_adapters            items of LORA_ADAPTERS: their scales count in requests that name no adapter
    adapter_dirs             folders below which clients may load adapters
    tinker_loss_aliases      NAME:SERVED_NAME, a loss of Tinker's API that is computed as another; empty: none
    """

    version: str = ""
    has_link: bool = False
    api_keys: tuple[str, ...] = ()
    host: str = "127.0.0.1"
    allowed_hosts: tuple[str, ...] = ()
    cors_origins: tuple[str, ...] = ()
    cors_credentials: bool = False
    root_path: str = ""
    max_body_bytes: int = 32_000_000
    max_file_bytes: int = 512_000_000
    stream_format: StreamFormat = "auto"
    default_max_tokens: int | None = None
    request_timeout_s: float | None = None
    default_temperature: float = 1.0
    default_seed: int | None = None
    max_concurrent_requests: int = 128
    max_best_of: int = 2
    max_stop_sequences: int = 4
    max_top_n_tokens: int = 5
    max_client_batch_size: int = 2048
    validation_workers: int = 16
    max_input_tokens: int | None = None
    lora_adapters: tuple[str, ...] = ()
    adapter_dirs: tuple[str, ...] = field(default_factory=lambda: (str(default_tuning_folder() / "models"),))
    tinker_loss_aliases: str = ""
    disable_grammar_support: bool = False
    watermark_gamma: float = 0.5
    watermark_delta: float = 2.0
    enable_prefill_logprobs: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpSettings:
    """How the HTTP server accepts connections, and ends them.

    host                address, name, or path of a Unix socket, which ends with .sock
    port                0: a free one
    drain_seconds       time for running requests to finish after a signal
    validation_workers  threads that run the Flask app
    ssl_certfile        TLS certificate; empty: HTTP. ssl_keyfile: its private key
    """

    host: str = "127.0.0.1"
    port: int = 8000
    drain_seconds: float = 30.0
    validation_workers: int = 16
    ssl_certfile: str = ""
    ssl_keyfile: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class TuningSettings:
    """How much tuning may take.

    max_file_bytes  largest uploaded file
    tuning_jobs     jobs that train at the same time
    tinker_runs     training runs in the trainer's memory at a time
    """

    max_file_bytes: int = 512_000_000
    tuning_jobs: int = 1
    tinker_runs: int = 8


Group = TypeVar(
    "Group", ModelSettings, EngineSettings, BackendSettings, ServerSettings, HttpSettings, TuningSettings
)


def group(kind: type[Group], settings: Settings, **changes: Any) -> Group:
    """Build `kind` from the settings of the same names; `changes` replaces fields that have other units."""
    names = {field.name for field in fields(Settings)}
    values = {field.name: getattr(settings, field.name) for field in fields(kind) if field.name in names}
    return kind(**(values | changes))


def backend_settings(settings: Settings) -> BackendSettings:
    return group(
        BackendSettings,
        settings,
        max_input_tokens=settings.max_input_tokens or None,
        max_answer_tokens=settings.max_answer_tokens or None,
        default_seed=None if settings.default_seed < 0 else settings.default_seed,
    )


def server_settings(settings: Settings, version: str, *, has_link: bool = False) -> ServerSettings:
    return group(
        ServerSettings,
        settings,
        version=version,
        has_link=has_link,
        max_body_bytes=round(settings.max_body_mb * 1e6),
        max_file_bytes=round(settings.max_file_mb * 1e6),
        default_max_tokens=settings.default_max_tokens or None,
        default_seed=None if settings.default_seed < 0 else settings.default_seed,
        request_timeout_s=settings.request_timeout or None,
        max_input_tokens=settings.max_input_tokens or None,
        adapter_dirs=adapter_folders(settings),
    )


def tuning_settings(settings: Settings) -> TuningSettings:
    return group(TuningSettings, settings, max_file_bytes=round(settings.max_file_mb * 1e6))


def adapter_folders(settings: Settings) -> tuple[str, ...]:
    """The folders of ADAPTER_DIRS; by default, that of the fine-tuned models."""
    folders = tuple(filter(None, settings.adapter_dirs.split(":")))
    return folders or (str((tuning_folder(settings) or default_tuning_folder()) / "models"),)


def tuning_folder(settings: Settings) -> Path | None:
    """The folder that TUNING_DIR means; None: it is off."""
    if settings.tuning_dir == OFF:
        return None
    return Path(settings.tuning_dir).expanduser() if settings.tuning_dir else default_tuning_folder()


def tuning_memory_bytes(settings: Settings) -> int:
    """Memory that serving leaves to trainers on its device; 0 where there is no tuning."""
    return int(settings.tuning_memory_gb * 1e9) if tuning_folder(settings) else 0


def tuning_processes(settings: Settings, num_gpus: int) -> int:
    """Processes of a trainer on the GPUs that the model may use, 0: on the CPU."""
    return (settings.tuning_processes or max(1, num_gpus)) if tuning_folder(settings) else 1


def default_tuning_folder() -> Path:
    caches = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(caches) / "hearth" / "tuning"
