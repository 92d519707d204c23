"""The response headers of TGI: what an answer cost, in characters, tokens and time.

Knows clocks and counts; a stream's headers come before its cost is known.
"""

import time
from dataclasses import dataclass, field

from api.tgi.told import Told


@dataclass(slots=True)
class Meter:
    """Measures one request from its making; `submitted` is told when it was found valid.

    compute  what computes, as TGI calls it
    inputs   the prompt
    """

    compute: str
    inputs: str
    begun: float = field(default_factory=time.perf_counter)
    valid: float = 0.0

    def submitted(self) -> None:
        self.valid = time.perf_counter()

    def streamed(self) -> dict[str, str]:
        return {"x-compute-type": self.compute, "x-compute-characters": str(len(self.inputs))}

    def whole(self, answer: Told) -> dict[str, str]:
        """Of an answer that is complete now. Times are whole milliseconds, x-compute-time is seconds."""
        now = time.perf_counter()
        total, validation, queue = now - self.begun, self.valid - self.begun, answer.begun.waited
        inference = max(0.0, total - validation - queue)
        times = {
            "x-total-time": total,
            "x-validation-time": validation,
            "x-queue-time": queue,
            "x-inference-time": inference,
            "x-time-per-token": inference / max(1, answer.ended.tokens),
        }
        return {
            **self.streamed(),
            "x-compute-time": str(total),
            **{name: str(int(seconds * 1000)) for name, seconds in times.items()},
            "x-prompt-tokens": str(answer.begun.prompt_tokens),
            "x-generated-tokens": str(answer.ended.tokens),
        }
