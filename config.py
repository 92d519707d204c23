"""Everything you can set. Change what stands right of an = sign, save, and run: python3 main.py

.env and environment variables of the same name come before this file, and flags (--port=9000) before both.
Text stands in quotes; switches are True or False; 0 means "choose for me" where the comment says so.
"""

# The model -------------------------------------------------------------------------------------------

# The model to serve: a folder on this machine, or a name on the Hugging Face Hub such as "Qwen/Qwen3-0.6B".
MODEL_NAME = "models/demo"

# Which version of it: a branch, a tag or a commit on the Hub.
MODEL_REVISION = "main"

# Other names that clients may call the model by, with commas between them.
SERVED_NAMES = ""

# Your token from https://huggingface.co/settings/tokens, for models behind a licence. Best kept in .env.
HUGGINGFACE_ACCESS_TOKEN = ""

# Run Python code that comes with the model. Only for models whose authors you trust.
TRUST_REMOTE_CODE = False

# Of a model with several GGUF files, the one to serve: its name or a part of it, such as "Q4_K_M". Its
# weights are unpacked as they are loaded; QUANTISE keeps them small.
GGUF_FILE = ""

# Read weights that are pickles (*.bin), which can run code. Only of models whose authors you trust.
ALLOW_PICKLE = False

# Use only what is already on this machine; the Hub is never asked.
OFFLINE = False

# The folder that downloaded models are kept in; empty: where other Hugging Face programs keep them.
CACHE_DIR = ""

# A tokenizer_config.json whose chat template and special tokens take the place of the model's; empty: none.
TOKENIZER_CONFIG_PATH = ""

# How rotary positions are stretched beyond the model's own length: none, linear, dynamic or yarn.
ROPE_SCALING = "none"

# How many times its own length the model takes then. With none above, a factor means linear.
ROPE_FACTOR = 1.0

# The server ------------------------------------------------------------------------------------------

# Who can reach the server: "127.0.0.1" only this machine, "0.0.0.0" every machine on its networks.
HOST = "127.0.0.1"

# The port it listens on.
PORT = 8000

# Another port that shows /metrics, and nothing else; 0: none, they are on PORT anyway.
PROMETHEUS_PORT = 0

# Keys that clients must send, with commas between them; empty: everyone is let in. Best kept in .env.
API_KEYS = ""

# Web sites whose pages may call the server from a browser, with commas between them; "*": all.
CORS_ORIGINS = ""

# The largest request that is read, in MB.
MAX_BODY_MB = 32

# Answers that take longer than this, in seconds, end where they are; 0: no limit.
REQUEST_TIMEOUT = 0

# How long running answers may go on, in seconds, once the server has been told to stop.
DRAIN_SECONDS = 30

# Threads that read requests and turn their text into tokens.
VALIDATION_WORKERS = 16

# How /inference/… streams to clients that do not say what they want: auto, ndjson or sse.
STREAM_FORMAT = "auto"

# How much is logged: debug, info, warning or error.
LOG_LEVEL = "info"

# Write each line of the log as a JSON object.
JSON_OUTPUT = False

# Answers ---------------------------------------------------------------------------------------------

# Tokens in an answer when the request does not say; 0: as many as fit.
DEFAULT_MAX_TOKENS = 0

# Temperature when the request does not say; 1 with no strategy picks the most probable token.
DEFAULT_TEMPERATURE = 1.0

# How the model writes tool calls: auto, which judges by its chat template, llama, hermes, mistral or python.
TOOL_FORMAT = "auto"

# Refuse requests for answers that follow a grammar or a schema.
DISABLE_GRAMMAR_SUPPORT = False

# Allow the probabilities of a prompt's tokens to be asked for.
ENABLE_PREFILL_LOGPROBS = True

# The share of the vocabulary that a watermark favours, where a request asks for one.
WATERMARK_GAMMA = 0.5

# What a watermark adds to the logits of that share.
WATERMARK_DELTA = 2.0

# What requests may ask for ---------------------------------------------------------------------------

# Requests that are answered or wait at the same time; one more is told to come back later.
MAX_CONCURRENT_REQUESTS = 128

# Texts that one request for completions may hold.
MAX_CLIENT_BATCH_SIZE = 2048

# Tokens that a prompt may have; 0: as many as leave room for an answer.
MAX_INPUT_TOKENS = 0

# Answers of which the TGI API may return the best, up to 64.
MAX_BEST_OF = 2

# Stop strings that a request of the TGI API may have, up to 64.
MAX_STOP_SEQUENCES = 4

# Alternatives to each token that a request of the TGI API may ask for, up to 20.
MAX_TOP_N_TOKENS = 5

# The machine -----------------------------------------------------------------------------------------

# Where the model runs: auto, cpu or cuda.
DEVICE = "auto"

# Layers on each GPU, with commas between them, "a" for all that are left; the rest on the CPU. Empty: DEVICE
# decides.
LAYERS = ""

# Processes that share the model, each with a part of every layer and a GPU of its own; 0: one for each GPU.
NUM_SHARD = 1

# The numbers it computes with: auto, float32, bfloat16, float16, or stored: as its files have them.
DTYPE = "auto"

# Weights in fewer bits, on a CPU: none, int8 or int4. Less memory and more speed for answers that are less
# exact; the start tells by how much.
QUANTISE = "none"

# Tokens that a prompt and its answer may have together; 0: as many as the model and the memory allow.
CONTEXT = 0

# Answers that are computed at the same time; the others wait.
MAX_SEQUENCES = 64

# Memory for the tokens of running answers, in GB; 0: what the model leaves free.
KV_MEMORY_GB = 0

# Tokens of running answers and their prompts, together; 0: as many as that memory holds.
MAX_BATCH_TOTAL_TOKENS = 0

# The share of a GPU's memory that the server may use.
CUDA_MEMORY_FRACTION = 1.0

# Tokens computed in one step. Larger is faster for long prompts, smaller is smoother for running answers.
MAX_BATCH_TOKENS = 512

# Prompts that begin alike share that part: it is computed once, and kept while there is room.
PREFIX_CACHING = True

# Tokens guessed ahead of an answer and checked in one step, up to 16, where the answer repeats itself or its
# prompt; no answer changes. 0: none.
SPECULATE = 0

# How the engine runs the model: fused, packed, slots, solo, or auto, the fastest that computes it rightly.
SEAT = "auto"

# No answer depends on what is computed beside it, to the last bit and in any DTYPE: outside the fused seat
# each is computed by itself, which is slower. SPECULATE has no effect.
DETERMINISTIC = False

# Prompt tokens that may wait for their turn; beyond that, clients are told to come back later.
MAX_QUEUED_TOKENS = 100_000

# Waiting answers begin once there are so many for each running one; 0: at once, as room allows.
WAITING_SERVED_RATIO = 0.0

# Or after so many steps in which none began; it has an effect where the ratio above keeps them waiting.
MAX_WAITING_TOKENS = 20

# Processor threads to compute with; 0: one for each core.
THREADS = 0
