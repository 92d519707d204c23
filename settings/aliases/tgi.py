"""The names that Text Generation Inference, Neodim and the Hub have for settings, and our former ones.

Each is accepted as a flag, in .env, in the environment and in config.py; a former name logs a warning.
"""

from collections.abc import Mapping

from settings.adapter_list import LIST_RULE, to_adapters
from settings.aliases.alias import OFF_VALUES, ON_VALUES, Alias, Unsupported
from settings.aliases.convert import (
    FORMER_RUNNERS,
    KV_CACHE_DTYPES,
    QUANTIZE_VALUES,
    bytes_to_megabytes,
    precision_to_dtype,
    sharded_to_num_shard,
    to_kv_dtype,
    to_log_level,
    to_quantize,
    to_runner,
)
from settings.schema import AT_LOAD

ALIASES: Mapping[str, Alias] = {
    "MODEL": Alias("MODEL_NAME"),
    "MODEL_ID": Alias("MODEL_NAME"),
    "REVISION": Alias("MODEL_REVISION"),
    "HF_TOKEN": Alias("HUGGINGFACE_ACCESS_TOKEN", is_fallback=True),
    "HUGGING_FACE_HUB_TOKEN": Alias("HUGGINGFACE_ACCESS_TOKEN", is_fallback=True),
    "HF_HUB_OFFLINE": Alias("OFFLINE", is_fallback=True),
    "WEIGHTS_CACHE_OVERRIDE": Alias("CACHE_DIR"),
    "HUGGINGFACE_HUB_CACHE": Alias("CACHE_DIR", is_fallback=True),
    "LORA_ADAPTERS": Alias("LORA_ADAPTERS", to_adapters, LIST_RULE, takes_several=True),
    "HOSTNAME": Alias("HOST"),
    "LISTEN_ADDRESS": Alias("HOST"),
    "LISTEN_PORT": Alias("PORT"),
    "API_KEY": Alias("API_KEYS", takes_several=True),
    "CORS_ALLOW_ORIGIN": Alias("CORS_ORIGINS"),
    "PAYLOAD_LIMIT": Alias("MAX_BODY_MB", bytes_to_megabytes, "a whole number of bytes, 1000 or more"),
    "GRACEFUL_TERMINATION_TIMEOUT": Alias("DRAIN_SECONDS"),
    "LOG_LEVEL": Alias("LOG_LEVEL", to_log_level),
    "PRECISION": Alias("DTYPE", precision_to_dtype, "original, float32 or float16 (QUANTIZE for fewer bits)"),
    "QUANTIZE": Alias("QUANTIZE", to_quantize, f"none, {', '.join(QUANTIZE_VALUES)}"),
    "QUANTISE": Alias("QUANTIZE", is_former=True),
    "KV_CACHE_DTYPE": Alias("KV_DTYPE", to_kv_dtype),
    "RUNNER": Alias("RUNNER", to_runner, former_values=FORMER_RUNNERS),
    "SEAT": Alias("RUNNER", to_runner, is_former=True),
    "SHARDED": Alias(
        "NUM_SHARD",
        sharded_to_num_shard,
        "true or false",
        is_fallback=True,
        overriding=OFF_VALUES,
        is_switch=True,
    ),
    "TENSOR_PARALLEL_SIZE": Alias("NUM_SHARD"),
    "MAX_INPUT_LENGTH": Alias("MAX_INPUT_TOKENS"),
    "MAX_TOTAL_TOKENS": Alias("CONTEXT"),
    "MAX_BATCH_SIZE": Alias("MAX_SEQUENCES"),
    "MAX_BATCH_PREFILL_TOKENS": Alias("MAX_BATCH_TOKENS"),
}

LOCAL_SHARDS = "all shards run on this machine and need no address"
QUANTIZED_IN_FILES = "the form of quantized weights is read from the model's config.json"
FUSED_ALREADY = "the engine selects fused kernels itself where their results are correct"
KV_DTYPE_OR_8_BITS = "the KV cache has the model's dtype, or 8 bits"
NO_TUNNEL = "this server opens no tunnel: set HOST, and put a reverse proxy in front"

UNSUPPORTED: Mapping[str, Unsupported] = {
    "QUANTIZE": Unsupported(
        no_effect_because="this server lacks its kernels, and serves the weights as they are stored",
        accepted=("none", *QUANTIZE_VALUES),
        ignored=("exl2", "marlin"),
        refused_because=f"must be none, {', '.join(AT_LOAD)}, awq or gptq; for weights stored in another "
        "format leave it out",
    ),
    "OTLP_ENDPOINT": Unsupported(
        refused_because="this server sends no traces: leave it out, and use /metrics instead"
    ),
    "OTLP_SERVICE_NAME": Unsupported("this server sends no traces"),
    "USAGE_STATS": Unsupported(
        accepted=("on", "off", "no-stack"),
        refused_because="must be on, off or no-stack; this server never sends usage statistics",
    ),
    "SAFETENSORS": Unsupported(
        accepted=ON_VALUES,
        refused_because="safetensors are always preferred; for pickles set ALLOW_PICKLE",
        is_switch=True,
    ),
    "MODEL_BASENAME": Unsupported("the weight files are found by their names in the model's folder"),
    "GROUP_SIZE": Unsupported(QUANTIZED_IN_FILES),
    "TRUE_SEQUENTIAL": Unsupported(QUANTIZED_IN_FILES, is_switch=True),
    "QUANTIZATION_TYPE": Unsupported(QUANTIZED_IN_FILES),
    "DOUBLE_QUANTIZATION": Unsupported(QUANTIZED_IN_FILES, is_switch=True),
    "FUSED_ATTENTION": Unsupported(FUSED_ALREADY, accepted=OFF_VALUES, is_switch=True),
    "FUSED_MLP": Unsupported(FUSED_ALREADY, accepted=OFF_VALUES, is_switch=True),
    "SHARD_UDS_PATH": Unsupported(LOCAL_SHARDS),
    "MASTER_ADDR": Unsupported(LOCAL_SHARDS),
    "MASTER_PORT": Unsupported(LOCAL_SHARDS),
    "CUDA_GRAPHS": Unsupported("the engine decides at load which steps to capture", accepted=("0",)),
    "DISABLE_CUSTOM_KERNELS": Unsupported(
        "a kernel is used only if its results were verified at load", accepted=OFF_VALUES, is_switch=True
    ),
    "KV_CACHE_DTYPE": Unsupported(KV_DTYPE_OR_8_BITS, accepted=("auto", *KV_CACHE_DTYPES)),
    "NGROK": Unsupported(NO_TUNNEL, accepted=OFF_VALUES, is_switch=True),
    "NGROK_AUTHTOKEN": Unsupported(NO_TUNNEL),
    "NGROK_EDGE": Unsupported(NO_TUNNEL),
    "LOG_COLORIZE": Unsupported("logs have no colours", accepted=OFF_VALUES, is_switch=True),
    "COMPUTE_TYPE": Unsupported("nothing here depends on it"),
}

SPELLINGS: Mapping[str, str] = {"-h": "--help", "-e": "--env", "-p": "--port", "-g": "--drain-seconds"}
