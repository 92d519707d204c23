"""The flags of vLLM's server, old and new. They count on the command line only.

A flag that has the name of a setting, or a row in tgi.py, is not repeated here.
"""

from collections.abc import Mapping

from settings.adapter_list import LIST_RULE, to_adapters
from settings.aliases.alias import OFF_VALUES, ON_VALUES, Alias, Unsupported, refused
from settings.aliases.convert import (
    bytes_to_gigabytes,
    config_to_draft_model,
    config_to_speculate,
    json_to_list,
    quantization_to_quantize,
    to_count,
    to_dtype,
    to_log_level,
    to_tool_format,
)

COUNT = "a whole number, 1 or more, also as 32k (32000) or 32K (32768)"
SPECULATIVE_RULE = "a JSON object, whose num_speculative_tokens is a whole number"
ROPE_RULE = "none, linear, dynamic or yarn (of a JSON object its rope_type, and its factor as ROPE_FACTOR)"

ALIASES: Mapping[str, Alias] = {
    "DTYPE": Alias("DTYPE", to_dtype),
    "ROPE_SCALING": Alias("ROPE_SCALING", lambda value: value or "none", ROPE_RULE),
    "MAX_MODEL_LEN": Alias("CONTEXT", to_count, f"{COUNT}; auto or -1 for as many as fit"),
    "MAX_NUM_SEQS": Alias("MAX_SEQUENCES", to_count, COUNT),
    "MAX_NUM_BATCHED_TOKENS": Alias("MAX_BATCH_TOKENS", to_count, COUNT),
    "MAX_NUM_QUEUED_REQS": Alias("MAX_CONCURRENT_REQUESTS"),
    "MAX_NUM_QUEUED_TOKENS": Alias("MAX_QUEUED_TOKENS"),
    "GPU_MEMORY_UTILIZATION": Alias("CUDA_MEMORY_FRACTION"),
    "KV_CACHE_MEMORY_BYTES": Alias(
        "KV_MEMORY_GB", bytes_to_gigabytes, "bytes, also as 20G (GiB) or 20g (GB)"
    ),
    "SERVED_MODEL_NAME": Alias("SERVED_NAMES", takes_several=True),
    "QUANTIZATION": Alias("QUANTIZE", quantization_to_quantize),
    "ENABLE_PREFIX_CACHING": Alias("PREFIX_CACHING", is_switch=True),
    "ALLOWED_ORIGINS": Alias("CORS_ORIGINS", json_to_list, "a JSON list of origins"),
    "ALLOW_CREDENTIALS": Alias("CORS_CREDENTIALS", is_switch=True),
    "SEED": Alias("DEFAULT_SEED"),
    "DOWNLOAD_DIR": Alias("CACHE_DIR"),
    "LORA_MODULES": Alias("LORA_ADAPTERS", to_adapters, LIST_RULE, takes_several=True),
    # vLLM's --max-loras is of one batch, which holds any number here: --max-cpu-loras counts if it is set.
    "MAX_CPU_LORAS": Alias("MAX_LORAS"),
    "MAX_LORAS": Alias("MAX_LORAS", is_fallback=True),
    "TOOL_CALL_PARSER": Alias("TOOL_FORMAT", to_tool_format),
    "NUM_SPECULATIVE_TOKENS": Alias("SPECULATE"),
    "SPEC_TOKENS": Alias("SPECULATE"),
    "SPEC_MODEL": Alias("DRAFT_MODEL"),
    "SPECULATIVE_MODEL": Alias("DRAFT_MODEL", unset=("[ngram]", "ngram")),
    "SPECULATIVE_CONFIG": Alias(
        "SPECULATE",
        config_to_speculate,
        SPECULATIVE_RULE,
        also=Alias("DRAFT_MODEL", config_to_draft_model, SPECULATIVE_RULE),
    ),
    "SHUTDOWN_TIMEOUT": Alias("DRAIN_SECONDS"),
    "UVICORN_LOG_LEVEL": Alias("LOG_LEVEL", to_log_level, is_fallback=True),
}

ONLY_LORA = "the adapters of this server are those of LORA_ADAPTERS: leave it out"
MODEL_CONFIG = "the model's config.json decides: leave it out, or edit a copy of the model's folder"
NO_TRACES = "this server sends no traces: leave it out, and use /metrics instead"
ONE_ADDRESS = "this server listens on HOST and PORT only: leave it out"

REFUSED: Mapping[str, Unsupported] = {
    **refused(
        ONLY_LORA,
        "QLORA_ADAPTER_NAME_OR_PATH DEFAULT_MM_LORAS",
        switches="ENABLE_PROMPT_ADAPTER",
        several="PROMPT_ADAPTERS",
    ),
    **refused(MODEL_CONFIG, "HF_OVERRIDES MODEL_CLASS_OVERRIDES HF_CONFIG_PATH ROPE_THETA"),
    **refused(ONE_ADDRESS, "UDS GRPC_PORT", switches="GRPC HEADLESS"),
    **refused(NO_TRACES, "OTLP_TRACES_ENDPOINT"),
    **refused("write its flags on the command line, or its values in config.py or .env", "CONFIG"),
    **refused("this server runs no code of yours: leave it out", "MIDDLEWARE", several="LOGITS_PROCESSORS"),
    **refused("the ciphers are those of Python's ssl module: leave it out", "SSL_CIPHERS"),
    "SSL_CERT_REQS": Unsupported(
        accepted=("0",),
        refused_because="clients' certificates are not checked: leave it out, and set API_KEYS, or put a "
        "reverse proxy in front",
    ),
    "TOKENIZER_REVISION": Unsupported(
        accepted=("main",), refused_because="the tokenizer is of MODEL_REVISION: leave it out"
    ),
    "CODE_REVISION": Unsupported(
        accepted=("main",), refused_because="the model's code is of MODEL_REVISION: leave it out"
    ),
    "TASK": Unsupported(
        accepted=("auto", "generate"), refused_because="must be generate: this server generates text"
    ),
    "CONVERT": Unsupported(
        accepted=("auto", "none"), refused_because="must be none: this server generates text"
    ),
    "LOAD_FORMAT": Unsupported(
        "the format of the weight files is recognized, and safetensors are preferred",
        accepted=("auto", "safetensors", "gguf"),
        ignored=(
            "fastsafetensors",
            "instanttensor",
            "runai_streamer",
            "runai_streamer_sharded",
            "hf",
            "mistral",
        ),
        refused_because="must be auto, safetensors or gguf; for pickles set ALLOW_PICKLE",
    ),
}

# Accepted in the environment, .env and config.py too.
ENVIRONMENT: Mapping[str, Unsupported] = {
    "VLLM_ALLOW_RUNTIME_LORA_UPDATING": Unsupported(
        "adapters can always be loaded from ADAPTER_DIRS", (*ON_VALUES, *OFF_VALUES), is_switch=True
    ),
}

SPELLINGS: Mapping[str, str] = {
    "--device-memory-utilization": "--gpu-memory-utilization",
    "-tp": "--tensor-parallel-size",
    "-pp": "--pipeline-parallel-size",
    "-dp": "--data-parallel-size",
    "-dpn": "--data-parallel-rank",
    "-dpr": "--data-parallel-start-rank",
    "-dpl": "--data-parallel-size-local",
    "-dpa": "--data-parallel-address",
    "-dpp": "--data-parallel-rpc-port",
    "-dpb": "--data-parallel-backend",
    "-dph": "--data-parallel-hybrid-lb",
    "-dpe": "--data-parallel-external-lb",
    "-dpm": "--data-parallel-multi-port-external-lb",
    "-dcp": "--decode-context-parallel-size",
    "-pcp": "--prefill-context-parallel-size",
    "-ep": "--enable-expert-parallel",
    "-q": "--quantization",
    "-O": "--optimization-level",
    "-cc": "--compilation-config",
    "-ac": "--attention-config",
    "-dc": "--diffusion-config",
    "-sc": "--speculative-config",
    "-asc": "--api-server-count",
    "-spec-draft-tp": "--speculative-draft-tensor-parallel-size",
}
# After `serve`, as in `vllm serve`, these short flags are vLLM's; otherwise they are llama.cpp's.
SERVE_SPELLINGS: Mapping[str, str] = {"-n": "--nnodes", "-r": "--node-rank"}
