"""The other engines by name. To add one, write a file with a PeerEngine and list it here.

scripts/bench/install.sh installs each of them in a folder of its own. Engines that use this Python
environment are always available.
"""

from functools import partial
from pathlib import Path

from scripts.bench.continuous import Continuous
from scripts.bench.engine_under_test import EngineUnderTest, SpawnedEngine
from scripts.bench.engines.ctranslate2 import CTRANSLATE2
from scripts.bench.engines.llama_cpp import LLAMA_CPP
from scripts.bench.engines.openvino import OPENVINO
from scripts.bench.engines.peer_engine import PeerEngine, use_same_model
from scripts.bench.engines.vllm import VLLM
from scripts.bench.generate import Generate
from scripts.bench.options import NONE, BenchOptions

BATCH = 16


def start_generate(options: BenchOptions, weight_format: str, model: Path) -> EngineUnderTest:
    return SpawnedEngine(partial(Generate, options, BATCH))


def start_continuous(options: BenchOptions, weight_format: str, model: Path) -> EngineUnderTest:
    return SpawnedEngine(partial(Continuous, options))


ENGINES = {
    engine.name: engine
    for engine in (
        LLAMA_CPP,
        VLLM,
        OPENVINO,
        CTRANSLATE2,
        PeerEngine("generate", {NONE: "bfloat16"}, "", use_same_model, start_generate),
        PeerEngine("continuous", {NONE: "bfloat16"}, "", use_same_model, start_continuous),
    )
}
