"""Decides whether an engine whose last requests all failed can still answer: by a request of its own.

Requests fail for reasons of their own too. An engine is unavailable if it cannot answer the smallest request.
"""

import time

from inference.engine.engine import Engine
from inference.engine.step_output import StepOutput
from inference.errors import ServerError
from inference.sampling import Sampling
from inference.types import GenerationRequest

MAX_CONSECUTIVE_FAILURES = 3  # failed requests in a row from which the engine is probed
PROBE_INTERVAL_S = 5.0  # from one probe to the next while they fail
PROBE_TIMEOUT_S = 60.0  # a probe that has no answer by then has failed, unless another request is answered


class EngineProbe:
    """Requests of one token. Called from several threads; at worst two of them start a probe each.

    token_id  the prompt of the probe
    """

    def __init__(self, engine: Engine, token_id: int) -> None:
        self._engine = engine
        self._request = GenerationRequest((token_id,), Sampling(greedy=True), max_tokens=1)
        self._started_s: float | None = None
        self._error: ServerError | None = None

    def unavailable_reason(self) -> str:
        """Why the engine cannot answer; empty while it can, or while no probe has failed. Does not wait."""
        num_failures = self._engine.consecutive_failures
        if num_failures < MAX_CONSECUTIVE_FAILURES:
            self._started_s = self._error = None
            return ""
        now = time.monotonic()
        if self._started_s is None or (self._error and now > self._started_s + PROBE_INTERVAL_S):
            self._started_s = now
            self._start()
        if self._error:
            return f"the last {num_failures} requests have failed, a probe too: {self._error.message}"
        if now > self._started_s + PROBE_TIMEOUT_S:
            return f"the last {num_failures} requests have failed, and a probe has no answer"
        return ""

    def put(self, output: StepOutput) -> None:
        """Receives the answer of a probe."""
        self._error = output.error

    def _start(self) -> None:
        try:
            self._engine.submit([self._request], [self])
        except ServerError as error:
            self._error = error if error.status >= 500 else None  # a full queue is no failure
