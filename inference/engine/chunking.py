"""How many tokens of a sequence one step computes, and how many of them another sequence may reuse.

Without a fixed chunk size, a prompt is split by the token budget that other sequences leave, and in half
precision the last bits of its logits depend on the split. With a fixed chunk size they depend on the sequence
alone. Knows counters only.
"""

from dataclasses import dataclass

from inference.engine.sequence import Sequence

CHUNK_SIZE = 256  # tokens: enough to keep the cores busy, few enough that most of a common prefix is shared


@dataclass(frozen=True, slots=True)
class Chunking:
    """How prompts are split into chunks.

    chunk_size  tokens of a chunk; the last chunk of a prompt may be shorter. Answers are computed token by
                token, also after a preemption, and sequences share only whole chunks of their prompts.
                0: no fixed size
    """

    chunk_size: int = 0

    def num_next_tokens(self, sequence: Sequence) -> int:
        """Tokens to compute in the next step; an upper bound if the chunk size is not fixed."""
        if not self.chunk_size:
            return sequence.num_unscheduled_tokens
        return max(1, min(self.chunk_size, sequence.num_prompt_tokens - sequence.num_computed_tokens))

    def num_shareable_tokens(self, sequence: Sequence, num_tokens: int) -> int:
        """How many of the sequence's first `num_tokens` tokens it may share with another sequence."""
        return (
            min(num_tokens, sequence.num_prompt_tokens) // self.chunk_size * self.chunk_size
            if self.chunk_size
            else num_tokens
        )


UNCHUNKED = Chunking()
