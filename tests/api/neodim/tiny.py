"""The vectors' tiny model as a backend, loaded once."""

from functools import cache

from inference.backend import Backend
from inference.factory import open_backend, open_engine
from inference.metrics import Metrics
from settings.groups import BackendSettings, EngineSettings, ModelSettings
from tests.api.neodim.conftest import VECTORS


@cache
def tiny() -> Backend:
    """A random GPT-Neo of 97,632 parameters and 256 tokens of context, in float32 on the CPU."""
    opened = open_engine(
        VECTORS / "neodim_tiny",
        ModelSettings(dtype="float32", device="cpu"),
        EngineSettings(
            context=256,
            max_sequences=8,
            kv_memory_bytes=1 << 28,
            max_batch_tokens=512,
            max_queued_tokens=1 << 16,
        ),
    )
    return open_backend(opened, BackendSettings(), model_id="neodim_tiny", metrics=Metrics())
