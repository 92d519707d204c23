"""CTranslate2's generator, in process, with weights of 8 bits: bfloat16 it refuses on most processors."""

from pathlib import Path

from scripts.bench.models import folder
from scripts.bench.peers.made import made
from scripts.bench.peers.peer import INT8, Peer
from scripts.bench.peers.piped import driven
from scripts.bench.terms import Terms

PYTHON, CONVERT = "ctranslate2/bin/python", "ctranslate2/bin/ct2-transformers-converter"


def converted(terms: Terms, form: str) -> Path:
    convert = (Path(terms.peers, CONVERT).absolute(), "--model", folder(terms.model), "--quantization", form)
    return made(terms, f"ctranslate2-{form}", lambda home: (*convert, "--output_dir", home))


CTRANSLATE2 = Peer("ctranslate2", {INT8: "int8"}, PYTHON, converted, driven(PYTHON, "ctranslate2_generator"))
