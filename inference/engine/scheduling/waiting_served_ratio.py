"""Text Generation Inference's rule for when waiting sequences join the running ones. Knows only counts."""

from dataclasses import dataclass


@dataclass(slots=True)
class WaitingServedRatio:
    """Decides when waiting sequences may join the running ones: at once, or once enough of them wait.

    The prompt of a sequence that joins delays the running ones, less often if several join together.
    Sequences join if `waiting_served_ratio` sequences wait for each running one, or if none has joined for
    `max_waiting_tokens` steps. The two options are Text Generation Inference's.
    """

    waiting_served_ratio: float
    max_waiting_tokens: int
    steps_since_admission: int = 0

    def should_admit(self, num_waiting: int, num_running: int) -> bool:
        """Whether waiting sequences may join in this step. Call once a step."""
        self.steps_since_admission += 1
        return (
            not num_running
            or self.steps_since_admission >= self.max_waiting_tokens
            or num_waiting >= int(self.waiting_served_ratio * num_running)
        )
