"""vLLM's server, in an environment of its own."""

from pathlib import Path

from scripts.bench.peers.peer import BF16, Peer, same
from scripts.bench.server import NAME, Server
from scripts.bench.terms import Terms

PYTHON, MODULE = "vllm/bin/python", "vllm.entrypoints.openai.api_server"
CONTEXT, CACHE_GIB = 2048, 1


def start(terms: Terms, form: str, model: Path) -> Server:
    command = [str(Path(terms.peers, PYTHON).absolute()), "-m", MODULE, "--model", str(model)]
    command += ["--host", "127.0.0.1", "--port", "{port}", "--served-model-name", NAME]
    command += ["--dtype", form, "--max-model-len", str(CONTEXT), "--disable-uvicorn-access-log"]
    settings = {"VLLM_CPU_KVCACHE_SPACE": str(CACHE_GIB), "HF_HUB_OFFLINE": "1", "VLLM_NO_USAGE_STATS": "1"}
    return Server(command, "/health", form, settings | {"VLLM_CPU_NUM_OF_RESERVED_CPU": "0"})


VLLM = Peer("vllm", {BF16: "bfloat16"}, PYTHON, same, start)
