"""llama.cpp's server, with a GGUF file that its own converter and quantizer make from the same weights."""

import sys
from pathlib import Path

from scripts.bench.engines.converted_files import convert_once
from scripts.bench.engines.peer_engine import PeerEngine
from scripts.bench.models import model_folder
from scripts.bench.options import INT4, INT8, NONE, Q4_K_M, Q8_0, BenchOptions
from scripts.bench.server import ServerEngine

HOME = "llama.cpp"
BINARIES = f"{HOME}/build/bin"
LOG_ERRORS_ONLY = 1
PARALLEL, CACHE_TOKENS = 16, 16_384  # concurrent requests; tokens in their shared KV cache
NO_PROMPT_CACHE = 0  # MB: prompts of earlier loads would be copied to RAM while the next one is computed


def start(options: BenchOptions, weight_format: str, model: Path) -> ServerEngine:
    command = [Path(options.engines_folder, BINARIES, "llama-server"), "--model", model, "--port", "{port}"]
    command += [
        "--threads",
        options.threads,
        "--parallel",
        PARALLEL,
        "--ctx-size",
        CACHE_TOKENS,
        "--kv-unified",
        "--cache-ram",
        NO_PROMPT_CACHE,
    ]
    command += ["--log-verbosity", LOG_ERRORS_ONLY]
    return ServerEngine([str(argument) for argument in command], "/health", weight_format)


def make_gguf(options: BenchOptions, weight_format: str) -> Path:
    if weight_format == "BF16":
        convert = (
            sys.executable,
            "-m",
            "scripts.bench.drivers.convert",
            Path(options.engines_folder, HOME).resolve(),
        )
        return convert_once(options, "BF16.gguf", lambda file: (*convert, model_folder(options.model), file))
    quantizer = Path(options.engines_folder, BINARIES, "llama-quantize")
    return convert_once(
        options,
        f"{weight_format}.gguf",
        lambda file: (quantizer, make_gguf(options, "BF16"), file, weight_format),
    )


LLAMA_CPP = PeerEngine(
    "llama.cpp",
    weight_formats={NONE: "BF16", INT8: "Q8_0", INT4: "Q4_0", Q8_0: "Q8_0", Q4_K_M: "Q4_K_M"},
    required_file=f"{BINARIES}/llama-server",
    prepare_model=make_gguf,
    start=start,
)
