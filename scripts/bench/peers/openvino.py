"""OpenVINO GenAI's continuous batching, in process: its server is none of its Python packages."""

from pathlib import Path

from scripts.bench.models import folder
from scripts.bench.peers.made import made
from scripts.bench.peers.peer import BF16, INT4, INT8, Peer
from scripts.bench.peers.piped import driven
from scripts.bench.terms import Terms

PYTHON, EXPORT = "openvino/bin/python", "openvino/bin/optimum-cli"


def exported(terms: Terms, form: str) -> Path:
    export = (Path(terms.peers, EXPORT).absolute(), "export", "openvino", "--model", folder(terms.model))
    how = ("--task", "text-generation-with-past", "--weight-format", form)
    return made(terms, f"openvino-{form}", lambda home: (*export, *how, home))


OPENVINO = Peer(
    "openvino", {BF16: "fp16", INT8: "int8", INT4: "int4"}, PYTHON, exported, driven(PYTHON, "openvino_genai")
)
