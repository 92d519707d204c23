"""The times of a request, as the headers of TGI's responses tell them."""

import time
from dataclasses import dataclass, field

from api.tgi.writers import TgiAccumulator


@dataclass(slots=True)
class RequestTimer:
    """Measures one request from construction, for the headers of its response.

    Call mark_validated() when the request is submitted. A stream's headers are sent before its tokens and
    times are known, so they omit these.

    compute_type  TGI's name for the device type
    inputs        the prompt
    started_at    time.perf_counter(), in seconds; so is validated_at
    """

    compute_type: str
    inputs: str
    started_at: float = field(default_factory=time.perf_counter)
    validated_at: float = 0.0

    def mark_validated(self) -> None:
        self.validated_at = time.perf_counter()

    def stream_headers(self) -> dict[str, str]:
        return {"x-compute-type": self.compute_type, "x-compute-characters": str(len(self.inputs))}

    def full_headers(self, output: TgiAccumulator) -> dict[str, str]:
        """The headers of a complete answer; call when it ends. Times are in ms, x-compute-time in seconds."""
        now = time.perf_counter()
        total = now - self.started_at
        validation = self.validated_at - self.started_at
        queue = output.started_event.queue_time_s
        inference = max(0.0, total - validation - queue)
        num_prompt_tokens = output.num_prompt_tokens
        times = {
            "x-total-time": total,
            "x-validation-time": validation,
            "x-queue-time": queue,
            "x-inference-time": inference,
            "x-time-per-token": inference / max(1, output.finished_event.num_tokens),
        }
        return {
            **self.stream_headers(),
            "x-compute-time": str(total),
            **{name: str(int(seconds * 1000)) for name, seconds in times.items()},
            **({} if num_prompt_tokens is None else {"x-prompt-tokens": str(num_prompt_tokens)}),
            "x-generated-tokens": str(output.finished_event.num_tokens),
        }
