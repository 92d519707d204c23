"""What the settings must satisfy together: rules over several of them, with messages that name the fix."""

import re
from collections.abc import Callable

from settings.schema import BadSetting, Settings

ROOT_PATH = re.compile(r"(/[^/?#\s]+)+")
NO_HOST = re.compile(r"\w+://.*|[^:/\[\]]+:\d+")  # a URL, or an address with a port
WITH_IMATRIX = ("q6_k", "q5_k_m", "q4_k_m", "q4_0")  # q8_0, int8 and int4 are rounded without one
IsBroken = Callable[[Settings], bool]

RULES: tuple[tuple[IsBroken, str], ...] = (
    (
        lambda s: bool(s.context) and s.max_input_tokens >= s.context,
        "`max_input_tokens`({s.max_input_tokens}) must be < `max_total_tokens`({s.context}): "
        "lower MAX_INPUT_TOKENS, or raise CONTEXT",
    ),
    (
        lambda s: 0 < s.max_batch_total_tokens < s.context,
        "`max_total_tokens` must be <= `max_batch_total_tokens`. Given: {s.context} and "
        "{s.max_batch_total_tokens}: lower CONTEXT, or raise MAX_BATCH_TOTAL_TOKENS",
    ),
    (
        lambda s: bool(s.layers) and s.num_shard != 1,
        "LAYERS puts whole layers on each GPU, and NUM_SHARD={s.num_shard} splits every layer: "
        "set only one of them",
    ),
    (
        lambda s: s.quantize_at_load != "none" and s.num_shard > 1,
        'QUANTIZE="{s.quantize}" works in one process only: set QUANTIZE="none", or NUM_SHARD=1',
    ),
    (
        lambda s: s.quantize_at_load != "none" and s.dtype == "float16",
        'QUANTIZE="{s.quantize}" computes in bfloat16 or float32: set DTYPE="auto"',
    ),
    (
        lambda s: bool(s.imatrix) and s.quantize not in WITH_IMATRIX,
        'IMATRIX is for QUANTIZE="q6_k", "q5_k_m", "q4_k_m" or "q4_0", not "{s.quantize}"',
    ),
    (
        lambda s: bool(s.draft_model) and s.num_shard > 1,
        'DRAFT_MODEL works in one process only: set DRAFT_MODEL="", or NUM_SHARD=1',
    ),
    (
        lambda s: bool(s.replicas.high and s.models.entries),
        "REPLICAS on a Ray cluster are of MODEL_NAME alone: remove MODELS, or name servers in REPLICAS",
    ),
    (
        lambda s: bool(s.replicas.high and s.lora_adapters),
        "REPLICAS on a Ray cluster have no adapters: remove LORA_ADAPTERS",
    ),
    (
        lambda s: bool(s.ssl_keyfile) and not s.ssl_certfile,
        "SSL_KEYFILE={s.ssl_keyfile} is the key of a certificate: set SSL_CERTFILE too",
    ),
    (
        lambda s: bool(s.root_path) and not ROOT_PATH.fullmatch(s.root_path),
        "ROOT_PATH={s.root_path} must begin with / and end without it, as /llm does",
    ),
    (
        lambda s: bool(NO_HOST.fullmatch(s.host)),
        'HOST={s.host} must be an address or a name alone, such as "127.0.0.1": the port is PORT',
    ),
    (lambda s: not s.validation_workers, "`validation_workers` must be > 0: raise VALIDATION_WORKERS"),
    (
        lambda s: bool(s.prometheus_port) and s.prometheus_port == s.port,
        "PROMETHEUS_PORT and PORT are both {s.port}: choose another number, or 0: /metrics is also on PORT",
    ),
)


def check(settings: Settings) -> None:
    """Raise BadSetting for the first violated rule."""
    for is_broken, message in RULES:
        if is_broken(settings):
            raise BadSetting(message.format(s=settings))
