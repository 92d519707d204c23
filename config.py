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

# Use only what is already on this machine; the Hub is never asked.
OFFLINE = False

# The folder that downloaded models are kept in; empty: where other Hugging Face programs keep them.
CACHE_DIR = ""

# The server ------------------------------------------------------------------------------------------

# Who can reach the server: "127.0.0.1" only this machine, "0.0.0.0" every machine on its networks.
HOST = "127.0.0.1"

# The port it listens on.
PORT = 8000

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

# How /inference/… streams to clients that do not say what they want: auto, ndjson or sse.
STREAM_FORMAT = "auto"

# How much is logged: debug, info, warning or error.
LOG_LEVEL = "info"

# Answers ---------------------------------------------------------------------------------------------

# Tokens in an answer when the request does not say; 0: as many as fit.
DEFAULT_MAX_TOKENS = 0

# Temperature when the request does not say; 1 with no strategy picks the most probable token.
DEFAULT_TEMPERATURE = 1.0

# The machine -----------------------------------------------------------------------------------------

# Where the model runs: auto, cpu or cuda.
DEVICE = "auto"

# The numbers it computes with: auto, float32, bfloat16 or float16.
DTYPE = "auto"

# Tokens that a prompt and its answer may have together; 0: as many as the model and the memory allow.
CONTEXT = 0

# Answers that are computed at the same time; the others wait.
MAX_SEQUENCES = 64

# Memory for the tokens of running answers, in GB; 0: what the model leaves free.
KV_MEMORY_GB = 0

# Tokens computed in one step. Larger is faster for long prompts, smaller is smoother for running answers.
MAX_BATCH_TOKENS = 512

# Prompt tokens that may wait for their turn; beyond that, clients are told to come back later.
MAX_QUEUED_TOKENS = 100_000

# Processor threads to compute with; 0: one for each core.
THREADS = 0
