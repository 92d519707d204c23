"""What other servers can be told and this one cannot: passed over with a warning, or refused until it can.

Passed over is what changes no answer; refused is what a user must not believe to be in force. A name may be
in aliases.py as well, where some of its values mean something here.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from settings.aliases import FEWER_BITS


@dataclass(frozen=True, slots=True)
class Elsewhere:
    """A setting of another server.

    neutral  values that ask for nothing this server lacks; nothing is said of them
    idle     why the other values have no effect
    refused  why, and what to do instead, where they stop the start; then only `passed` are passed over
    """

    idle: str = ""
    neutral: tuple[str, ...] = ()
    refused: str = ""
    passed: tuple[str, ...] = ()
    switch: bool = False

    def refuses(self, value: str) -> bool:
        return bool(self.refused) and value.lower() not in (*self.neutral, *self.passed)

    def warns(self, value: str) -> bool:
        return value.lower() not in self.neutral and not self.refuses(value)


OFF = ("false", "0")
UNSHARDED = "shards are on this machine, and find each other"
QUANTISED = "weights are served as their files have them"
UNFUSED = "layers are joined by themselves, on CUDA, where that is proved right"
UNTUNNELED = "no tunnel is opened: set HOST, and put a proxy in front"

ELSEWHERE: Mapping[str, Elsewhere] = {
    "QUANTIZE": Elsewhere(
        idle="its kernels are not here, the weights are served as they are",
        neutral=("none", *FEWER_BITS),
        passed=("exl2", "marlin"),
        refused="it is a form of files, and those say so themselves: leave it out, or set QUANTISE",
    ),
    "LORA_ADAPTERS": Elsewhere(
        refused="adapters cannot be served yet; until then leave it out, or merge them into the model"
    ),
    "OTLP_ENDPOINT": Elsewhere(
        refused="traces cannot be sent yet; until then leave it out, /metrics has the figures"
    ),
    "OTLP_SERVICE_NAME": Elsewhere("no traces are sent"),
    "USAGE_STATS": Elsewhere(
        neutral=("on", "off", "no-stack"), refused="must be on, off or no-stack; nothing is ever sent"
    ),
    "SAFETENSORS": Elsewhere(
        neutral=("true", "1"), refused="weights are read from safetensors alone", switch=True
    ),
    "MODEL_BASENAME": Elsewhere("a model's folder says which files hold its weights"),
    "GROUP_SIZE": Elsewhere(QUANTISED),
    "TRUE_SEQUENTIAL": Elsewhere(QUANTISED, switch=True),
    "QUANTIZATION_TYPE": Elsewhere(QUANTISED),
    "DOUBLE_QUANTIZATION": Elsewhere(QUANTISED, switch=True),
    "FUSED_ATTENTION": Elsewhere(UNFUSED, neutral=OFF, switch=True),
    "FUSED_MLP": Elsewhere(UNFUSED, neutral=OFF, switch=True),
    "SHARD_UDS_PATH": Elsewhere(UNSHARDED),
    "MASTER_ADDR": Elsewhere(UNSHARDED),
    "MASTER_PORT": Elsewhere(UNSHARDED),
    "CUDA_GRAPHS": Elsewhere("which steps are recorded is found out at load", neutral=("0",)),
    "DISABLE_CUSTOM_KERNELS": Elsewhere(
        "a kernel is used only where it is proved right", neutral=OFF, switch=True
    ),
    "KV_CACHE_DTYPE": Elsewhere("keys and values are kept in the model's own dtype", neutral=("auto",)),
    "NGROK": Elsewhere(UNTUNNELED, neutral=OFF, switch=True),
    "NGROK_AUTHTOKEN": Elsewhere(UNTUNNELED),
    "NGROK_EDGE": Elsewhere(UNTUNNELED),
    "LOG_COLORIZE": Elsewhere("logs have no colours", neutral=OFF, switch=True),
    "COMPUTE_TYPE": Elsewhere("nothing depends on it"),
}
