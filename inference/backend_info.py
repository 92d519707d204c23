"""What a backend says about itself: the model that it serves, and how busy it is. Plain values only."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

ModelStatus = Literal["unloaded", "loading", "loaded", "sleeping", "unloading", "failed"]


@dataclass(frozen=True, slots=True)
class ModelInfo:
    """The model that a backend serves.

    context               tokens of prompt and answer together; None: unknown
    vocab, created        width of the logits; Unix time of the load
    chat_fallback_reason  why the model's chat template is not used, and what replaces it; empty if it is used
    details               further properties, such as dtype and device
    embedding_sizes       that an embedding may be cut to, ascending, its full size last; empty: unknown
    status                whether its weights are in memory
    status_detail         how far its load is, or why it failed; empty: nothing is known
    """

    id: str
    context: int | None
    vocab: int
    created: int
    chat_fallback_reason: str = ""
    details: Mapping[str, str] = field(default_factory=dict)
    embedding_sizes: Sequence[int] = ()
    status: ModelStatus = "loaded"
    status_detail: str = ""


@dataclass(frozen=True, slots=True)
class Device:
    """A GPU's memory in bytes: free and total of the GPU, reserved and allocated by torch in this process."""

    name: str
    total: int
    free: int
    reserved: int
    allocated: int


@dataclass(frozen=True, slots=True)
class BackendLoad:
    """How busy a backend is. kv_usage: share of the KV cache that running answers use, from 0 to 1."""

    running: int = 0
    waiting: int = 0
    kv_usage: float = 0.0
    devices: tuple[Device, ...] = ()
