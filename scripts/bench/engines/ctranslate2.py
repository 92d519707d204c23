"""CTranslate2's generator in a driver process, with 8-bit weights. Few processors support its bfloat16."""

from pathlib import Path

from scripts.bench.engines.converted_files import convert_once
from scripts.bench.engines.peer_engine import PeerEngine
from scripts.bench.engines.subprocess_engine import driver_starter
from scripts.bench.models import model_folder
from scripts.bench.options import INT8, BenchOptions

PYTHON, CONVERT = "ctranslate2/bin/python", "ctranslate2/bin/ct2-transformers-converter"


def convert(options: BenchOptions, weight_format: str) -> Path:
    command = (
        Path(options.engines_folder, CONVERT).absolute(),
        "--model",
        model_folder(options.model),
        "--quantization",
        weight_format,
    )
    return convert_once(
        options, f"ctranslate2-{weight_format}", lambda path: (*command, "--output_dir", path)
    )


CTRANSLATE2 = PeerEngine(
    "ctranslate2", {INT8: "int8"}, PYTHON, convert, driver_starter(PYTHON, "ctranslate2_generator")
)
