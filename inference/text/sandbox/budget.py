"""What the rendering of one chat template may spend: steps, characters, seconds.

A template is third-party code. Its loops, the texts that it builds and its time grow with what it renders.
"""

from time import thread_time

from jinja2 import TemplateError

FREE_STEPS = 100_000  # of a template that renders nothing
STEPS_PER_CHAR = 4
MAX_PAIR_STEPS = 1 << 24  # a template may look at every pair of values, up to this many
FREE_CHARS = 1 << 22
COPIES = 64  # of the input's text; and one more for each of the values, up to MAX_COPIED_CHARS
MAX_COPIED_CHARS = 1 << 28
MAX_SECONDS = 5.0  # of the thread's own time, which other requests do not shorten
CHARS_PER_STEP = 256
STEPS_BETWEEN_CHECKS = 1 << 12


class TemplateLimit(TemplateError):
    """A template spends more than its budget."""


class Budget:
    """What is left for one rendering of an input that has num_values values and num_chars characters.

    Once exceeded, it stays so: code that hides one error gets the next one.
    """

    __slots__ = ("chars", "check_at", "deadline", "max_chars", "max_steps", "steps")

    def __init__(self, num_values: int, num_chars: int) -> None:
        pairs = min(num_values * num_values, MAX_PAIR_STEPS)
        copies = COPIES * num_chars + min(num_values * num_chars, MAX_COPIED_CHARS)
        self.max_steps = FREE_STEPS + STEPS_PER_CHAR * num_chars + pairs
        self.max_chars = FREE_CHARS + copies
        self.deadline = thread_time() + MAX_SECONDS
        self.steps = self.chars = 0
        self.check_at = STEPS_BETWEEN_CHECKS

    def charge(self, steps: int, chars: int = 0) -> None:
        """Spend steps, and characters that are about to be written or read. Raises TemplateLimit."""
        self.steps += steps + chars // CHARS_PER_STEP
        self.chars += chars
        if self.steps >= self.check_at or self.chars > self.max_chars:
            self._check()

    def _check(self) -> None:
        if self.chars > self.max_chars:
            raise TemplateLimit(f"it handles more than {self.max_chars} characters, its limit here")
        if self.steps > self.max_steps:
            raise TemplateLimit(f"it takes more than {self.max_steps} steps, its limit here")
        if thread_time() > self.deadline:
            raise TemplateLimit(f"it takes longer than {MAX_SECONDS:g} s, its limit")
        self.check_at = min(self.steps + STEPS_BETWEEN_CHECKS, self.max_steps + 1)
