"""All settings. Change values right of = (text in quotes, switches True or False), save, run: python3 main.py

.env overrides this file, the environment .env, flags (--port=9000) all. 0 is special where a comment says so.
"""

# The model -------------------------------------------------------------------------------------------

# The model to serve: a folder or GGUF file here, or a name on the Hugging Face Hub, "Qwen/Qwen3-0.6B".
MODEL_NAME = "models/demo"

# The version of the model on the Hub: a branch, a tag or a commit.
MODEL_REVISION = "main"

# Additional names of the model that requests may use, separated by commas.
SERVED_NAMES = ""

# The server that runs MODEL_NAME, such as "vllm_chat:gpu-box:8000"; empty: this machine. See docs/remote.md.
INFERENCE_SERVER = ""

# Servers of MODEL_NAME: "4" or "2..8" on a Ray cluster, or "http://a:8000,http://b:8000"; empty: this one.
REPLICAS = ""

# Seconds to connect to a server of INFERENCE_SERVER, REPLICAS or MODELS, unless its entry has `timeouts`.
CONNECT_TIMEOUT = 5

# Seconds that such a server has to say what it is, at the start and after a failure.
PROBE_TIMEOUT = 5

# Several models instead of MODEL_NAME: JSON, a Python literal, or @file. See docs/several_models.md.
MODELS = ""

# How long one of several models stays in memory unused: "5m", seconds, or "-1": until another needs it.
KEEP_ALIVE = "5m"

# Seconds that a request waits for its model to be loaded; then it gets status 503 with the progress.
LOAD_WAIT_SECONDS = 120

# Seconds after which a busy model takes no new requests if another one waits for its memory.
MODEL_SWAP_SECONDS = 5

# Models of MODELS that are awake in memory at the same time, at most; 0: as many as fit.
MAX_LOADED_MODELS = 0

# Your token from https://huggingface.co/settings/tokens, for gated and private models. Best kept in .env.
HUGGINGFACE_ACCESS_TOKEN = ""

# Run the Python code that comes with the model. Enable it only for models whose authors you trust.
TRUST_REMOTE_CODE = False

# The GGUF file to serve, by its name or a part of it such as "Q4_K_M", if the model has several.
GGUF_FILE = ""

# Load weights from pickle files (*.bin), which can run code: only for models whose authors you trust.
ALLOW_PICKLE = False

# Use only files that are already on this machine, and never contact the Hub.
OFFLINE = False

# The folder for downloaded models; empty: the cache that all Hugging Face programs share.
CACHE_DIR = ""

# The folder where packed weights are kept for the next start; empty: ~/.cache/hearth/weights; off: none.
WEIGHT_CACHE_DIR = ""

# A tokenizer_config.json whose chat template and special tokens replace the model's; empty: none.
TOKENIZER_CONFIG_PATH = ""

# A chat template in place of the model's: the path of a Jinja file, or the template itself; empty: none.
CHAT_TEMPLATE = ""

# How rotary position embeddings are scaled to extend the model's context: none, linear, dynamic or yarn.
ROPE_SCALING = "none"

# The factor by which ROPE_SCALING extends the context. Without ROPE_SCALING, one other than 1 means linear.
ROPE_FACTOR = 1.0

# LoRA adapters ---------------------------------------------------------------------------------------

# LoRA adapters to serve, separated by commas: name=folder, or name=owner/adapter@revision of the Hub.
LORA_ADAPTERS = ""

# The folders, separated by colons, below which clients may load adapters; empty: models in TUNING_DIR.
ADAPTER_DIRS = ""

# The largest rank of an adapter.
MAX_LORA_RANK = 256

# Adapters whose weights are held in memory, at most; the least used are let go and read again when needed.
MAX_LORAS = 64

# The server ------------------------------------------------------------------------------------------

# The address: "127.0.0.1" for this machine only, "0.0.0.0" for all networks, or a Unix socket: a path.sock.
HOST = "127.0.0.1"

# The port to listen on.
PORT = 8000

# An additional port that serves only /metrics; 0: none. PORT serves /metrics in any case.
PROMETHEUS_PORT = 0

# The path prefix under which a reverse proxy shows the server, such as "/llm"; requests may leave it out.
ROOT_PATH = ""

# A TLS certificate in PEM format, with its chain: PORT then speaks HTTPS. Empty: HTTP.
SSL_CERTFILE = ""

# The private key of SSL_CERTFILE; empty: the certificate's file has it.
SSL_KEYFILE = ""

# API keys, separated by commas; clients must send one of them. Empty: no key is required. Best kept in .env.
API_KEYS = ""

# Serve other machines without API_KEYS, which is refused else: whoever reaches HOST can use the server.
ALLOW_OPEN_HOST = False

# Host names that requests may use beside addresses and private names; "*": any. Empty: any with API_KEYS.
ALLOWED_HOSTS = ""

# Origins of web pages that may call the server from a browser, separated by commas; "*": all origins.
CORS_ORIGINS = ""

# Allow pages of CORS_ORIGINS to send cookies and other credentials of the browser.
CORS_CREDENTIALS = False

# The largest request body that is accepted, in MB.
MAX_BODY_MB = 32

# Seconds after which an answer that is still being generated is cut off; 0: no limit.
REQUEST_TIMEOUT = 0

# Seconds that running answers may take to finish when the server is stopped.
DRAIN_SECONDS = 30

# Threads that parse requests and tokenize prompts.
VALIDATION_WORKERS = 16

# The format of streams from /inference/… if no request header selects one: ndjson, sse, or auto for ndjson.
STREAM_FORMAT = "auto"

# The lowest level that is logged: debug, info, warning or error.
LOG_LEVEL = "info"

# Write each line of the log, and the report of the checks, as a JSON object.
JSON_OUTPUT = False

# Stored responses, conversations and chats, as text; empty: ~/.cache/hearth/responses.db; off: no file.
RESPONSES_STORE = ""

# The largest size of the file of RESPONSES_STORE, in MB; beyond it, the oldest are deleted.
RESPONSES_STORE_MB = 1000

# Days after which what is stored is deleted, if it was not changed since.
RESPONSES_STORE_DAYS = 30

# Fine-tuning -----------------------------------------------------------------------------------------

# The folder of files, datasets, fine-tuning jobs and their models; empty: ~/.cache/hearth/tuning; off: none.
TUNING_DIR = ""

# The largest uploaded file, in MB.
MAX_FILE_MB = 512

# Fine-tuning jobs that run at the same time; further ones wait.
TUNING_JOBS = 1

# Processes of a trainer, each with the whole model, which divide the rows of a batch; 0: one per GPU.
TUNING_PROCESSES = 1

# Memory that serving leaves to fine-tuning, in GB: VRAM on a GPU, else RAM; 0: what the KV cache leaves.
TUNING_MEMORY_GB = 0

# Training runs of Tinker's API in memory; the least used ones are on the disk until their next request.
TINKER_RUNS = 8

# What Tinker's stable_reinforce is computed as, such as "stable_reinforce:ppo"; empty: it is refused.
TINKER_LOSS_ALIASES = ""

# Answers ---------------------------------------------------------------------------------------------

# Tokens of an answer, at most, if neither the request nor its API sets a limit; 0: what the context holds.
DEFAULT_MAX_TOKENS = 0

# Tokens of an answer, at most: requests for more get so many, and no error; 0: no limit of its own.
MAX_ANSWER_TOKENS = 0

# The temperature of requests that set none. On /inference/…, 1 without a sampling strategy means greedy.
DEFAULT_TEMPERATURE = 1.0

# The seed of requests that set none, so that equal requests get equal answers; -1: a random seed for each.
DEFAULT_SEED = -1

# How the model writes tool calls: llama, hermes, mistral, python, or auto, as in the chat template.
TOOL_FORMAT = "auto"

# Whether chats have a model's reasoning apart from its text: auto, where the chat template marks it; none.
REASONING_FORMAT = "auto"

# Refuse requests for structured output: a JSON schema, a regular expression or a grammar.
DISABLE_GRAMMAR_SUPPORT = False

# Allow requests for the logprobs of prompt tokens.
ENABLE_PREFILL_LOGPROBS = True

# The share of the vocabulary that a watermark favours, for requests with a watermark.
WATERMARK_GAMMA = 0.5

# The value that a watermark adds to the logits of the favoured tokens.
WATERMARK_DELTA = 2.0

# Limits of requests ----------------------------------------------------------------------------------

# Requests that run or wait at a time, at most; further ones get status 429. 0: 128, or 1024 on a GPU.
MAX_CONCURRENT_REQUESTS = 0

# Prompts in one completion request, at most.
MAX_CLIENT_BATCH_SIZE = 2048

# Tokens of a prompt, at most; 0: as many as leave room for an answer in the context.
MAX_INPUT_TOKENS = 0

# Where a text such as <|im_end|> is the special token: none, prompts (of completions), all (chats: unsafe).
SPECIAL_TOKENS_IN = "prompts"

# The largest best_of in a request to the TGI API, at most 64.
MAX_BEST_OF = 2

# Stop strings in a request to the TGI API, at most 64.
MAX_STOP_SEQUENCES = 4

# The largest top_n_tokens in a request to the TGI API, at most 20.
MAX_TOP_N_TOKENS = 5

# The machine -----------------------------------------------------------------------------------------

# The device that runs the model: cpu, cuda, or auto, which takes a GPU if torch sees one.
DEVICE = "auto"

# Layers on each GPU, separated by commas, "a": all others; the rest run on the CPU. Empty: all on DEVICE.
LAYERS = ""

# Tensor-parallel processes, each with a part of every layer, and on GPUs one GPU each; 0: one per GPU.
NUM_SHARD = 1

# The dtype of the computation: auto, float32, bfloat16, float16, or stored, the dtype of the weight files.
DTYPE = "auto"

# Quantize the weights: none, int8, int4, on a CPU q8_0, q6_k, q5_k_m, q4_k_m, q4_0; awq, gptq: as stored.
QUANTIZE = "none"

# A file of llama-imatrix, by which q6_k, q5_k_m, q4_k_m and q4_0 weigh their errors; empty: none.
IMATRIX = ""

# Tokens of a prompt and its answer together, at most; 0: as many as the model and the memory allow.
CONTEXT = 0

# Sequences in a batch, at most; further ones wait. 0: 64 on a CPU, 256 on a GPU.
MAX_SEQUENCES = 0

# Memory for the KV cache, in GB; 0: up to what the model leaves free.
KV_MEMORY_GB = 0

# The dtype of the KV cache: auto, the model's, or int8, on a CPU: nearly twice the context per GB.
KV_DTYPE = "auto"

# Tokens of all running sequences together, prompts included, at most; 0: as many as KV_MEMORY_GB holds.
MAX_BATCH_TOTAL_TOKENS = 0

# The share of each GPU's memory that the server may use.
CUDA_MEMORY_FRACTION = 1.0

# Tokens of a step, at most: more speed up long prompts, fewer delay answers less. 0: 512, or 2048 on a GPU.
MAX_BATCH_TOKENS = 0

# Compute the common prefix of prompts once, and keep it in the KV cache while there is room.
PREFIX_CACHING = True

# Draft tokens per step, at most 16: answers are faster and do not change. 0: none, or 4 with DRAFT_MODEL.
SPECULATE = 0

# A smaller model with the same tokenizer that writes the drafts; empty: they are repetitions of the text.
DRAFT_MODEL = ""

# How the engine runs the model: fused, paged, contiguous, uncached, or auto, the fastest with correct logits.
RUNNER = "auto"

# Make answers independent of other requests in a batch, to the last bit, in any DTYPE: slower, no SPECULATE.
DETERMINISTIC = False

# Prompt tokens that may wait, at most; further requests get status 429. 0: 100,000; 1,000,000 on a GPU.
MAX_QUEUED_TOKENS = 0

# Waiting requests needed for each running one before they are admitted; 0: admit at once, as room allows.
WAITING_SERVED_RATIO = 0.0

# Steps after which waiting requests are admitted regardless of WAITING_SERVED_RATIO.
MAX_WAITING_TOKENS = 20

# CPU threads to compute with; 0: one per core.
THREADS = 0
