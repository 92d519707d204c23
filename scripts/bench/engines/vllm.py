"""vLLM's server, in a virtual environment of its own."""

from pathlib import Path

from scripts.bench.engines.peer_engine import PeerEngine, use_same_model
from scripts.bench.options import NONE, BenchOptions
from scripts.bench.server import MODEL_NAME, ServerEngine

PYTHON, MODULE = "vllm/bin/python", "vllm.entrypoints.openai.api_server"
CONTEXT, CACHE_GIB = 2048, 1


def start(options: BenchOptions, weight_format: str, model: Path) -> ServerEngine:
    command = [str(Path(options.engines_folder, PYTHON).absolute()), "-m", MODULE, "--model", str(model)]
    command += ["--host", "127.0.0.1", "--port", "{port}", "--served-model-name", MODEL_NAME]
    command += ["--dtype", weight_format, "--max-model-len", str(CONTEXT), "--disable-uvicorn-access-log"]
    settings = {"VLLM_CPU_KVCACHE_SPACE": str(CACHE_GIB), "HF_HUB_OFFLINE": "1", "VLLM_NO_USAGE_STATS": "1"}
    return ServerEngine(command, "/health", weight_format, settings | {"VLLM_CPU_NUM_OF_RESERVED_CPU": "0"})


VLLM = PeerEngine("vllm", {NONE: "bfloat16"}, PYTHON, use_same_model, start)
