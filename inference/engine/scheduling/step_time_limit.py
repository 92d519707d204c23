"""Limits the prompt tokens of a step beside running answers, by the time that they take.

Each running answer gets its next token only at the end of the step. Knows token counts and seconds of steps,
on any device.
"""

MAX_RATIO = 3.0  # of a step with prompts to a step of answers alone
MIN_LIMIT_S = 0.006  # a step may always take this long: nobody notices, and short steps cost throughput
MIN_PROMPT_TOKENS = 32  # fewer take a CPU hardly less time: it reads all weights for them
WEIGHT = 0.2  # of the last step in the moving averages


class StepTimeLimit:
    """Measures steps, and derives how many prompt tokens fit into the time that a step may take.

    decode_s  seconds of a step of answers alone: a moving average, 0 before the first one
    token_s   seconds that each prompt token adds, likewise
    """

    def __init__(self) -> None:
        self.decode_s = 0.0
        self.token_s = 0.0

    @property
    def max_prompt_tokens(self) -> int | None:
        """Prompt tokens of the next step, if answers run; None before both kinds of steps were measured."""
        if not (self.decode_s and self.token_s):
            return None
        limit_s = max(MIN_LIMIT_S, MAX_RATIO * self.decode_s)
        return max(MIN_PROMPT_TOKENS, int((limit_s - self.decode_s) / self.token_s))

    def record_step(self, num_prompt_tokens: int, num_draft_tokens: int, seconds: float) -> None:
        """Note a step; one with drafts counts neither for answers alone nor for prompts."""
        if num_draft_tokens:
            return
        if not num_prompt_tokens:
            self.decode_s = average(self.decode_s, seconds)
        elif num_prompt_tokens >= MIN_PROMPT_TOKENS:
            self.token_s = average(self.token_s, max(0.0, seconds - self.decode_s) / num_prompt_tokens)


def average(value: float, new_value: float) -> float:
    """The moving average with `new_value`; a value of 0 is none."""
    return value + WEIGHT * (new_value - value) if value else new_value
