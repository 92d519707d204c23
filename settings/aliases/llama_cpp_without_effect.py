"""llama.cpp's flags that this server accepts with a warning, by the reason why they have no effect."""

from collections.abc import Mapping

from settings.aliases.alias import Unsupported, no_effect
from settings.aliases.convert import CACHE_TYPES
from settings.aliases.reasons import (
    NO_DRAFT_MODEL,
    NO_IMAGES,
    OWN_KERNELS,
    OWN_LOADING,
    OWN_PAGES,
    REASONING_PER_REQUEST,
    TEMPLATE_MARKS_REASONING,
)
from settings.aliases.tgi import KV_DTYPE_OR_8_BITS

OWN_THREADS = "THREADS is the number of threads; the system places them"
IN_THE_REQUEST = "a request sets it itself"
WHOLE_LAYERS = "LAYERS puts whole layers on each GPU, the rest on the CPU; NUM_SHARD splits every layer"
NO_TOOLS = "this server runs no tools: it returns the model's tool calls"
FIXED_LOG = "LOG_LEVEL and JSON_OUTPUT are the settings of the log, which has no prompts"
FIXED_ROUTES = "the routes and pages of this server are fixed"

IGNORED: Mapping[str, Unsupported] = {
    "FLASH_ATTN": Unsupported(OWN_KERNELS, accepted=("auto",), is_switch=True),
    **dict.fromkeys(
        ("CACHE_TYPE_K", "CACHE_TYPE_V"),
        Unsupported(KV_DTYPE_OR_8_BITS, accepted=("f16", "bf16", *CACHE_TYPES)),
    ),
    "YARN_ORIG_CTX": Unsupported("the model's config.json has its context", accepted=("0",)),
    "SLEEP_IDLE_SECONDS": Unsupported("the model stays loaded", accepted=("-1",)),
    "CORS_METHODS": Unsupported("pages of CORS_ORIGINS may use every method", accepted=("*",)),
    "CORS_HEADERS": Unsupported("pages of CORS_ORIGINS may send every header", accepted=("*",)),
    **no_effect(
        OWN_KERNELS,
        "DEFRAG_THOLD GRP_ATTN_N GRP_ATTN_W",
        switches="BACKEND_SAMPLING NO_HOST CHECK_TENSORS",
        enabled="OP_OFFLOAD PERF REPACK WARMUP",
    ),
    **no_effect(
        OWN_PAGES,
        """CACHE_RAM CACHE_REUSE CHECKPOINT_MIN_STEP CTX_CHECKPOINTS KEEP
        KV_UNIFIED_PER_SLOT SLOT_PROMPT_SIMILARITY SLOT_SAVE_PATH""",
        switches="CACHE_IDLE_SLOTS CONTEXT_SHIFT SWA_FULL",
        enabled="KV_OFFLOAD KV_UNIFIED",
    ),
    **no_effect(
        OWN_LOADING,
        "LOAD_MODE LAZY_MODE FIT FIT_TARGET FIT_CTX",
        switches="MLOCK DIRECT_IO",
        enabled="MMAP",
    ),
    **no_effect(
        OWN_THREADS,
        """CPU_MASK CPU_MASK_BATCH CPU_RANGE CPU_RANGE_BATCH CPU_STRICT CPU_STRICT_BATCH NUMA POLL POLL_BATCH
        PRIO PRIO_BATCH THREADS_BATCH""",
    ),
    **no_effect(
        WHOLE_LAYERS,
        "MAIN_GPU N_CPU_FFN N_CPU_MOE OVERRIDE_TENSOR RPC SPLIT_MODE TENSOR_SPLIT",
        switches="CPU_MOE",
    ),
    **no_effect("-b is the number of tokens in a step", "UBATCH_SIZE"),
    **no_effect("requests are always batched while they run", enabled="CONT_BATCHING"),
    **no_effect("an adapter counts where a request names it", enabled="LORA_INIT_WITHOUT_APPLY"),
    **no_effect(
        NO_IMAGES,
        """IMAGE_MAX_TOKENS IMAGE_MIN_TOKENS MEDIA_PATH MMPROJ MMPROJ_DEVICE MMPROJ_URL MTMD_BATCH_MAX_TOKENS
        VIDEO_FFMPEG_DIR VIDEO_FPS VIDEO_TIMESTAMP_INTERVAL""",
        switches="MMPROJ_AUTO MMPROJ_OFFLOAD",
    ),
    **no_effect(
        NO_DRAFT_MODEL,
        """DRAFT_MIN LOOKUP_CACHE_DYNAMIC LOOKUP_CACHE_STATIC SPEC_DRAFT_CPU_MASK
        SPEC_DRAFT_CPU_MASK_BATCH SPEC_DRAFT_CPU_RANGE SPEC_DRAFT_CPU_RANGE_BATCH SPEC_DRAFT_CPU_STRICT
        SPEC_DRAFT_CPU_STRICT_BATCH SPEC_DRAFT_DEVICE SPEC_DRAFT_NGL
        SPEC_DRAFT_N_CPU_MOE SPEC_DRAFT_N_MIN SPEC_DRAFT_OVERRIDE_TENSOR SPEC_DRAFT_POLL
        SPEC_DRAFT_POLL_BATCH SPEC_DRAFT_PRIO SPEC_DRAFT_PRIO_BATCH SPEC_DRAFT_P_MIN SPEC_DRAFT_P_SPLIT
        SPEC_DRAFT_THREADS SPEC_DRAFT_THREADS_BATCH SPEC_DRAFT_TYPE_K SPEC_DRAFT_TYPE_V
        SPEC_NGRAM_MAP_K4V_MIN_HITS SPEC_NGRAM_MAP_K4V_SIZE_M SPEC_NGRAM_MAP_K4V_SIZE_N
        SPEC_NGRAM_MAP_K_MIN_HITS SPEC_NGRAM_MAP_K_SIZE_M SPEC_NGRAM_MAP_K_SIZE_N SPEC_NGRAM_MIN_HITS
        SPEC_NGRAM_MOD_N_MATCH SPEC_NGRAM_MOD_N_MAX SPEC_NGRAM_MOD_N_MIN SPEC_NGRAM_SIMPLE_MIN_HITS
        SPEC_NGRAM_SIMPLE_SIZE_M SPEC_NGRAM_SIMPLE_SIZE_N SPEC_NGRAM_SIZE_M SPEC_NGRAM_SIZE_N
        SPEC_SYNTH_LEN SPEC_SYNTH_RATES SPEC_TYPE""",
        switches="DFLASH EAGLE3 MTP SPEC_DEFAULT SPEC_DRAFT_BACKEND_SAMPLING SPEC_DRAFT_CPU_MOE",
    ),
    **no_effect(
        IN_THE_REQUEST,
        """ADAPTIVE_DECAY ADAPTIVE_TARGET CHAT_TEMPLATE_KWARGS DRY_ALLOWED_LENGTH DRY_BASE DRY_MULTIPLIER
        DRY_PENALTY_LAST_N DRY_SEQUENCE_BREAKER DYNATEMP_EXP DYNATEMP_RANGE FREQUENCY_PENALTY LOGIT_BIAS
        MIN_P MIROSTAT MIROSTAT_ENT MIROSTAT_LR PRESENCE_PENALTY REPEAT_LAST_N REPEAT_PENALTY
        REVERSE_PROMPT SAMPLERS SAMPLER_SEQ TOP_K TOP_NSIGMA TOP_P TYPICAL XTC_PROBABILITY XTC_THRESHOLD""",
        switches="IGNORE_EOS SPECIAL",
    ),
    **no_effect(
        "the chat template of the model is always rendered",
        switches="SPM_INFILL",
        enabled="ESCAPE JINJA PREFILL_ASSISTANT",
    ),
    **no_effect(TEMPLATE_MARKS_REASONING, switches="SKIP_CHAT_PARSING"),
    **no_effect(
        REASONING_PER_REQUEST, "REASONING REASONING_BUDGET REASONING_BUDGET_MESSAGE REASONING_EFFORT"
    ),
    **no_effect("reasoning of earlier turns goes to the chat template", enabled="REASONING_PRESERVE"),
    **no_effect(
        "the model's config.json decides",
        "POOLING YARN_ATTN_FACTOR YARN_BETA_FAST YARN_BETA_SLOW YARN_EXT_FACTOR",
    ),
    **no_effect(
        NO_TOOLS,
        "MCP_SERVERS_CONFIG MCP_SERVERS_JSON TOOLS TOOLS_RUNTIME UI_CONFIG UI_CONFIG_FILE",
        switches="AGENT UI_MCP_PROXY",
    ),
    **no_effect(
        FIXED_LOG,
        "LOG_COLORS LOG_FILE LOG_PROMPTS_DIR LOG_VERBOSITY",
        switches="LOG_DISABLE LOG_JSONL",
        enabled="LOG_PREFIX LOG_TIMESTAMPS",
    ),
    **no_effect(
        FIXED_ROUTES,
        "EMBD_NORMALIZE PATH TAGS",
        switches="EMBEDDING MODELS_AUTOLOAD PROPS RERANK REUSE_PORT SLOTS SLOTS_ENDPOINT_DISABLE",
        enabled="METRICS UI",
    ),
    **no_effect(
        "an answer may take as long as REQUEST_TIMEOUT; streams send no pings", "SSE_PING_INTERVAL TIMEOUT"
    ),
}
