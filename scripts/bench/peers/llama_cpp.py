"""llama.cpp's server, on a GGUF file made of the same weights by its own converter and quantiser."""

import sys
from pathlib import Path

from scripts.bench.models import folder
from scripts.bench.peers.made import made
from scripts.bench.peers.peer import BF16, INT4, INT8, Peer
from scripts.bench.server import Server
from scripts.bench.terms import Terms

HOME = "llama.cpp"
BUILT = f"{HOME}/build/bin"
ERRORS = 1  # what it logs
SLOTS, CELLS = 16, 16_384  # requests at once; tokens of all of them, in one cache that they share


def start(terms: Terms, form: str, model: Path) -> Server:
    command = [Path(terms.peers, BUILT, "llama-server"), "--model", model, "--port", "{port}"]
    command += ["--threads", terms.threads, "--parallel", SLOTS, "--ctx-size", CELLS, "--kv-unified"]
    command += ["--log-verbosity", ERRORS]
    return Server([str(part) for part in command], "/health", form)


def gguf(terms: Terms, form: str) -> Path:
    if form == "BF16":
        convert = (sys.executable, "-m", "scripts.bench.drivers.convert", Path(terms.peers, HOME).resolve())
        return made(terms, "BF16.gguf", lambda file: (*convert, folder(terms.model), file))
    quantise, whole = Path(terms.peers, BUILT, "llama-quantize"), gguf(terms, "BF16")
    return made(terms, f"{form}.gguf", lambda file: (quantise, whole, file, form))


LLAMA_CPP = Peer(
    "llama.cpp",
    forms={BF16: "BF16", INT8: "Q8_0", INT4: "Q4_0"},
    needs=f"{BUILT}/llama-server",
    model=gguf,
    start=start,
)
