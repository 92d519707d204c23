"""How much a step may compute, and how many sequences may run: less for a while after running out of memory.

Knows integers alone.
"""

MIN_BUDGET = 16  # smallest budget after running out of memory
STEPS_TO_RECOVER = 256  # successful steps after which the limits are restored


class StepLimits:
    """The limits of the next step.

    token_budget  tokens that it computes: each decoding sequence gets one, prompts share the rest
    max_running   sequences that may run at once
    """

    def __init__(self, token_budget: int, max_running: int) -> None:
        self.token_budget = self._full_budget = token_budget
        self.max_running = self._full_running = max_running
        self._steps_since_oom = 0

    def shrink(self, num_running: int) -> bool:
        """Halve the budget and run one sequence less, after a step with so many ran out of memory.

        STEPS_TO_RECOVER successful steps undo this. Returns False for a sequence that ran alone with the
        smallest budget: less is impossible, so the limits are restored.
        """
        if num_running == 1 and self.token_budget <= MIN_BUDGET and not self._steps_since_oom:
            self._restore()
            return False
        self.token_budget = max(min(MIN_BUDGET, self._full_budget), self.token_budget // 2)
        self.max_running = max(1, num_running - 1)
        self._steps_since_oom = 0
        return True

    def record_success(self) -> None:
        """Count a successful step; STEPS_TO_RECOVER successful steps in a row restore the limits."""
        self._steps_since_oom += 1
        if self._steps_since_oom == STEPS_TO_RECOVER:
            self._restore()

    def _restore(self) -> None:
        self.token_budget, self.max_running = self._full_budget, self._full_running
