"""The step that the pipeline computes: what the scheduler chose for it, and when."""

from dataclasses import dataclass

from inference.engine.scheduling.scheduler import SchedulerOutput
from inference.engine_stats import StepStats


@dataclass(slots=True)
class ScheduledStep:
    """What the scheduler chose.

    num_tokens           tokens to compute, drafts included
    num_newly_scheduled  sequences that got a row since the last step
    has_prompt           whether it computes the prompt of a sequence without output so far
    step_budget          tokens that the step may compute
    start_s              time.perf_counter() before scheduling
    """

    output: SchedulerOutput
    num_tokens: int
    num_newly_scheduled: int
    has_prompt: bool
    step_budget: int
    start_s: float

    @property
    def num_draft_tokens(self) -> int:
        return self.num_tokens - sum(num_tokens for _, num_tokens in self.output)

    @property
    def num_context_tokens(self) -> int:
        """Tokens whose keys and values it reads."""
        return sum(sequence.num_computed_tokens for sequence, _ in self.output)

    def stats(self, num_processed_tokens: int, seconds: float, *, failed: bool) -> StepStats:
        """What is reported of the step once it is complete; see StepStats."""
        return StepStats(
            num_tokens=self.num_tokens,
            num_processed_tokens=num_processed_tokens,
            num_newly_scheduled=self.num_newly_scheduled,
            has_prompt=self.has_prompt,
            seconds=seconds,
            failed=failed,
        )
