"""The prompts that this server has got lately, for the servers in front of it, of which there may be several.

Each of them learns what the others' requests have left in the prefix cache.
"""

import threading
import time
from collections import deque
from collections.abc import Callable, Sequence

from inference.prefix_blocks import block_hashes, prompt_bytes
from inference.types import GenerationRequest

MAX_PROMPTS = 256  # kept for a reader that comes each second
MAX_PROMPT_BLOCKS = 512
FOLLOWED_S = 60.0  # after the last reader: then prompts are not hashed


class PrefixLog:
    """Hashes of the latest prompts, numbered from 1. For any thread. clock: in seconds."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._prompts: deque[Sequence[int]] = deque(maxlen=MAX_PROMPTS)
        self._num_prompts = 0
        self._followed_until = 0.0
        self._lock = threading.Lock()  # taken once a request

    def add(self, request: GenerationRequest) -> None:
        """Note the request's prompt if somebody reads the log."""
        if self._clock() > self._followed_until:
            return
        if hashes := block_hashes(prompt_bytes(request))[:MAX_PROMPT_BLOCKS]:
            with self._lock:
                self._prompts.append(hashes)
                self._num_prompts += 1

    def read(self, after: int) -> tuple[int, list[Sequence[int]]]:
        """The number of the last prompt, and the hashes of those after number `after`, oldest first.

        All hashes in the log if `after` is not a number of this log: the server was restarted.
        """
        self._followed_until = self._clock() + FOLLOWED_S
        with self._lock:
            is_known = 0 <= after <= self._num_prompts
            num_new = self._num_prompts - after if is_known else MAX_PROMPTS
            return self._num_prompts, list(self._prompts)[-num_new:] if num_new else []
