"""SleepMode: gives an idle model's memory on a CPU back, and serves it again without a load, as vLLM.

The process, tokenizer and verified runner stay. Knows the engine, the tensors of the KV cache, and packed
weights that are mapped from a file; these can be dropped, because the system reads them again.
"""

import logging
import threading
import time
from collections.abc import Collection, Iterator
from contextlib import contextmanager, nullcontext
from functools import partial

from torch import Tensor

from inference.engine.engine import Engine
from inference.engine.engine_thread import EngineThread
from inference.errors import BadRequest, Unavailable
from inference.model.batch import Runner
from inference.model.memory_usage import kv_cache_tensors
from inference.native.weight_cache.file import PAGE
from inference.process.memory.malloc import trim_heap
from inference.process.memory.mmap_release import address_range, mapped_files, release_range, release_weight

# What sleeps, by the names of vLLM's tags.
WEIGHTS, KV_CACHE = TAGS = ("weights", "kv_cache")
DISCARD_KV_CACHE, DISCARD_WEIGHTS = LEVELS = (1, 2)  # the second one includes the first
ABORT, WAIT = MODES = ("abort", "wait")
SLEEPING = "the model sleeps: POST /wake_up"
POLL_S = 0.02

log = logging.getLogger(__name__)


class SleepMode:
    """Puts one model to sleep and wakes it. Every method may be called from any thread but the engine's.

    mapped_weights  the bytes of the file that packed weights are mapped from; None: they are in memory
    """

    def __init__(
        self, engine: Engine, engine_thread: EngineThread, runner: Runner, mapped_weights: Tensor | None
    ) -> None:
        self._engine = engine
        self._engine_thread = engine_thread
        self._runner = runner
        self._mapped_weights = mapped_weights
        self._sleeping_tags: frozenset[str] = frozenset()  # changes on the engine's thread
        self._waiting = threading.Lock()

    @property
    def is_sleeping(self) -> bool:
        """Whether new requests are refused."""
        return bool(self._sleeping_tags)

    @property
    def deepest_level(self) -> int:
        """The level that releases the most."""
        return DISCARD_KV_CACHE if self._mapped_weights is None else DISCARD_WEIGHTS

    @property
    def reclaimable_bytes(self) -> int:
        """The bytes that the deepest level releases, once all of them have been used."""
        tensors = [*kv_cache_tensors(self._runner), self._mapped_weights]
        return sum(tensor.nbytes for tensor in tensors if tensor is not None)

    def sleep(self, level: int, mode: str) -> None:
        """Refuse new requests, end the running ones by `mode`, and release memory; waits for that.

        level  1: of the KV cache, whose prefixes are forgotten; 2: of mapped weights, too
        mode   "abort": running requests fail with Unavailable; "wait": they end first

        Raises BadRequest; Unavailable while another call waits for running requests.
        """
        check_choice("level", level, LEVELS)
        check_choice("mode", mode, MODES)
        if level == DISCARD_WEIGHTS and self._mapped_weights is None:
            reason = "must be 1: these weights are not mapped from WEIGHT_CACHE_DIR, so 2 would lose them"
            raise BadRequest("level", reason, level)
        with self._only_one_waits() if mode == WAIT else nullcontext():
            self._engine.pause(SLEEPING)
            while not self._engine_thread.run(partial(self._try_to_sleep, level, mode)):
                time.sleep(POLL_S)
        log.info("event=sleeping level=%d", level)

    def wake_up(self, tags: Collection[str] = TAGS) -> bool:
        """Wake what the tags name; returns whether requests are taken again. Raises BadRequest.

        Weights are read ahead; the KV cache takes memory as it is used.
        """
        for tag in tags:
            check_choice("tags", tag, TAGS)
        if WEIGHTS in tags and WEIGHTS in self._sleeping_tags and self._mapped_weights is not None:
            self._mapped_weights[::PAGE].max()  # touches every page
        is_awake = self._engine_thread.run(partial(self._wake, tags))
        log.info("event=woken tags=%s awake=%s", ",".join(tags), is_awake)
        return is_awake

    @contextmanager
    def _only_one_waits(self) -> Iterator[None]:
        """A call that waits occupies a thread of the server for as long as answers may take."""
        if not self._waiting.acquire(blocking=False):
            raise Unavailable("another request waits to put the model to sleep: mode=abort ends what runs")
        try:
            yield
        finally:
            self._waiting.release()

    def _try_to_sleep(self, level: int, mode: str) -> bool:
        """Release the memory unless requests run. On the engine's thread."""
        core = self._engine.core
        if mode == ABORT:
            core.end_all(Unavailable("the model was put to sleep"))
            core.counters.consecutive_failures = 0  # they say nothing against the engine
        if not self._engine.is_idle:
            return False
        core.scheduler.discard_all()
        for data in kv_cache_tensors(self._runner):
            release_range(*address_range(data))
        if level == DISCARD_WEIGHTS and self._mapped_weights is not None:
            release_weight(self._mapped_weights, mapped_files())  # not of a copy, which would be lost
        trim_heap()
        self._sleeping_tags = frozenset(TAGS)
        self._engine.pause(SLEEPING)  # again: it may have been woken meanwhile
        return True

    def _wake(self, tags: Collection[str]) -> bool:
        self._sleeping_tags -= frozenset(tags)
        if not self._sleeping_tags:
            self._engine.resume()
        return not self._sleeping_tags


def check_choice(field: str, value: int | str, choices: Collection[int | str]) -> None:
    """Raise BadRequest for a value that is none of the choices."""
    if value not in choices:
        raise BadRequest(field, f"must be one of {', '.join(map(str, choices))}", value)
