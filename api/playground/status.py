"""How busy the server is and what memory it takes, for the page's bars. All sizes are bytes."""

from dataclasses import asdict
from typing import Any

import psutil

from inference.backend import Backend


def status(backend: Backend) -> dict[str, Any]:
    """`chat` says what stands in for a chat template, as ModelInfo has it; `own` is this process's memory."""
    info, load = backend.info(), backend.load()
    return {
        "model": info.id,
        "context": info.context,
        "chat": info.chat,
        "running": load.running,
        "waiting": load.waiting,
        "used": load.used,
        "ram": _ram(),
        "devices": [asdict(device) for device in load.devices],
    }


def _ram() -> dict[str, int]:
    memory = psutil.virtual_memory()
    return {"total": memory.total, "free": memory.available, "own": psutil.Process().memory_info().rss}
