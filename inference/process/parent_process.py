"""What a child does for its parent where the system does not: it ends when that dies, and hears SIGTERM.

Linux ends it, see launch.py; the job object of windows_group.py does so on Windows, which has no SIGTERM.
"""

import os
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

from inference.process.windows_group import EVENT_NAME, raise_at_event

POLL_S = 1.0


def obey_parent() -> None:
    """Start the thread that this takes, if any. Call it first: launch.py has just seen the parent alive."""
    if sys.platform == "win32":
        if name := os.environ.pop(EVENT_NAME, ""):
            start_thread(raise_at_event, name)
    elif sys.platform != "linux":
        start_thread(end_with, os.getppid())


def start_thread(target: Callable[[Any], None], argument: Any) -> None:
    threading.Thread(target=target, args=(argument,), name="parent", daemon=True).start()


def end_with(parent: int) -> None:
    """End this process soon after its parent."""
    while os.getppid() == parent:
        time.sleep(POLL_S)
    os._exit(1)  # no process would use its results
