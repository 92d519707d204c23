"""OpenVINO GenAI's continuous batching in a driver process: its Python packages have no server."""

from pathlib import Path

from scripts.bench.engines.converted_files import convert_once
from scripts.bench.engines.peer_engine import PeerEngine
from scripts.bench.engines.subprocess_engine import driver_starter
from scripts.bench.models import model_folder
from scripts.bench.options import INT4, INT8, NONE, BenchOptions

PYTHON, EXPORT = "openvino/bin/python", "openvino/bin/optimum-cli"


def export_model(options: BenchOptions, weight_format: str) -> Path:
    command = (
        Path(options.engines_folder, EXPORT).absolute(),
        "export",
        "openvino",
        "--model",
        model_folder(options.model),
    )
    export_options = ("--task", "text-generation-with-past", "--weight-format", weight_format)
    return convert_once(options, f"openvino-{weight_format}", lambda path: (*command, *export_options, path))


OPENVINO = PeerEngine(
    "openvino",
    {NONE: "fp16", INT8: "int8", INT4: "int4"},
    PYTHON,
    export_model,
    driver_starter(PYTHON, "openvino_genai"),
)
