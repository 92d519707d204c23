"""What settings must be to each other, each rule in the words of the server it comes from, with the mend."""

from collections.abc import Callable

from settings.fields import BadSetting, Settings

Broken = Callable[[Settings], bool]

RULES: tuple[tuple[Broken, str], ...] = (
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
        "LAYERS gives each GPU layers of its own, NUM_SHARD ({s.num_shard}) a part of every layer: "
        "leave one out",
    ),
    (
        lambda s: s.quantise != "none" and s.device == "cuda",
        'QUANTISE="{s.quantise}" is for a CPU: set QUANTISE="none", or DEVICE="cpu"',
    ),
    (
        lambda s: s.quantise != "none" and s.num_shard > 1,
        'QUANTISE="{s.quantise}" is for one process: set QUANTISE="none", or NUM_SHARD=1',
    ),
    (
        lambda s: s.quantise != "none" and s.dtype == "float16",
        'QUANTISE="{s.quantise}" computes in bfloat16 or float32: set DTYPE="auto"',
    ),
    (lambda s: not s.validation_workers, "`validation_workers` must be > 0: raise VALIDATION_WORKERS"),
    (
        lambda s: bool(s.prometheus_port) and s.prometheus_port == s.port,
        "PROMETHEUS_PORT and PORT are both {s.port}: choose another, or 0, as /metrics is on PORT anyway",
    ),
)


def check(settings: Settings) -> None:
    """Raise BadSetting for the first rule that is broken."""
    for broken, told in RULES:
        if broken(settings):
            raise BadSetting(told.format(s=settings))
