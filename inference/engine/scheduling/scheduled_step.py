"""The step that the pipeline computes: what the scheduler chose for it, and when."""

from dataclasses import dataclass

from inference.engine.scheduling.scheduler import SchedulerOutput


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
