"""The other engines by name. To add one, write a file with a Peer and name it here.

They are installed by scripts/bench/install.sh, each in a folder of its own. Those that compute in this
Python are always there.
"""

from functools import partial
from pathlib import Path

from scripts.bench.contender import Apart, Player
from scripts.bench.continuous import Continuous
from scripts.bench.generate import Generate
from scripts.bench.peers.ctranslate2 import CTRANSLATE2
from scripts.bench.peers.llama_cpp import LLAMA_CPP
from scripts.bench.peers.openvino import OPENVINO
from scripts.bench.peers.peer import BF16, Peer, same
from scripts.bench.peers.vllm import VLLM
from scripts.bench.terms import Terms

BATCH = 16


def generate(terms: Terms, form: str, model: Path) -> Player:
    return Apart(partial(Generate, terms, BATCH))


def continuous(terms: Terms, form: str, model: Path) -> Player:
    return Apart(partial(Continuous, terms))


PEERS = {
    peer.name: peer
    for peer in (
        LLAMA_CPP,
        VLLM,
        OPENVINO,
        CTRANSLATE2,
        Peer("generate", {BF16: "bfloat16"}, "", same, generate),
        Peer("continuous", {BF16: "bfloat16"}, "", same, continuous),
    )
}
