"""How many tokens of a sequence one call computes, and how many of them another sequence may begin with.

Left free, a prompt is cut wherever its neighbours leave room, and in half precision the last bits of its
logits depend on where. In pieces of one size they depend on nothing but the sequence. Knows counters only.
"""

from dataclasses import dataclass

from inference.engine.sequence import Sequence

PIECE = 256  # tokens: enough to use a machine well, few enough that most of a common prefix is shared


@dataclass(frozen=True, slots=True)
class Pieces:
    """How sequences are cut.

    size  a prompt is computed in pieces of so many tokens, the last one shorter; an answer, be it for a
          second time, token by token; sequences share whole pieces of their prompts. 0: left free
    """

    size: int = 0

    def next(self, sequence: Sequence) -> int:
        """Tokens it computes in its next call; where left free, at most."""
        if not self.size:
            return sequence.todo
        return max(1, min(self.size, sequence.prompt - sequence.cached))

    def shared(self, sequence: Sequence, count: int) -> int:
        """Of its first `count` tokens, how many it may have from another, or another from it."""
        return min(count, sequence.prompt) // self.size * self.size if self.size else count


FREE = Pieces()
