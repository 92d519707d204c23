"""How long the rest of a job takes, from the steps and pauses that this process has timed.

Knows counts and seconds; no clock, data or model.
"""

from dataclasses import dataclass, field

EVALUATION_SHARE = 0.33  # of a step's time for each token: an evaluation has no backward pass
SAVES_OF_PAUSE = 4 / 3  # the state is an adapter and two moments; a pause writes a checkpoint beside it


@dataclass(slots=True)
class RemainingTime:
    """The speed of a job so far, and what it says about the rest.

    After some steps there is a pause, in which the job evaluates and saves a checkpoint.

    mean_step_tokens  tokens of a step on average over the dataset: the first steps may have short rows
    valid_tokens      of an evaluation; 0: there are none. They estimate a pause until there was one
    save_s            seconds of saving the job's state, which belong to that estimate
    """

    mean_step_tokens: float
    valid_tokens: int = 0
    num_steps: int = field(default=0, init=False)
    seconds: float = field(default=0.0, init=False)
    num_tokens: int = field(default=0, init=False)
    save_s: float = field(default=0.0, init=False)
    pause_s: float | None = field(default=None, init=False)

    def add_step(self, num_tokens: int, seconds: float) -> None:
        """Count a step. The first one also sets up buffers and kernels: later ones replace it."""
        if self.num_steps == 1:
            self.seconds, self.num_tokens = 0.0, 0
        self.num_steps += 1
        self.seconds += seconds
        self.num_tokens += num_tokens

    def add_pause(self, seconds: float) -> None:
        self.pause_s = seconds

    def estimate(self, num_steps: int, num_pauses: int) -> float:
        """Seconds of so many more steps and pauses; 0 before the first step."""
        token_s = self.seconds / max(1, self.num_tokens)
        pause_s = self.pause_s
        if pause_s is None:
            pause_s = EVALUATION_SHARE * token_s * self.valid_tokens + SAVES_OF_PAUSE * self.save_s
        return num_steps * self.mean_step_tokens * token_s + num_pauses * pause_s
