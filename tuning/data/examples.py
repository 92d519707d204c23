"""The rows of a dataset as a trainer takes them: token ids, each with a weight. Plain values only."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from inference.errors import BadRequest


@dataclass(frozen=True, slots=True)
class Example:
    """One row to train on.

    weights  weights[i]: of predicting token_ids[i]; 0 for tokens of the prompt, and for the first token
    line     where the row begins in its file, from 1
    """

    token_ids: tuple[int, ...]
    weights: tuple[float, ...]
    line: int

    @property
    def num_trained_tokens(self) -> int:
        return len(self.weights) - self.weights.count(0)


@dataclass(frozen=True, slots=True)
class PreferencePair:
    """Two answers to one prompt, for dpo and orpo."""

    chosen: Example
    rejected: Example
    line: int


@dataclass(frozen=True, slots=True)
class RatedExample:
    """An answer that is desirable or is not, for kto."""

    example: Example
    is_desirable: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Dataset:
    """An encoded dataset. One of examples, pairs and rated_examples has the rows, as the method needs them.

    row_form   name of the form of its rows, see row_forms.py
    num_cut    rows left out because max_length would cut an answer
    cut_lines  lines of the first of these
    events     what the user must know about the encoding, as sentences
    """

    row_form: str
    examples: Sequence[Example] = ()
    pairs: Sequence[PreferencePair] = ()
    rated_examples: Sequence[RatedExample] = ()
    num_cut: int = 0
    cut_lines: tuple[int, ...] = ()
    events: tuple[str, ...] = ()

    def __len__(self) -> int:
        """The number of rows."""
        return len(self.examples) + len(self.pairs) + len(self.rated_examples)

    @property
    def num_tokens(self) -> int:
        """Tokens of all rows, prompts included."""
        return sum(len(example.token_ids) for example in self.sequences())

    @property
    def num_trained_tokens(self) -> int:
        """Tokens with a weight in the loss."""
        return sum(example.num_trained_tokens for example in self.sequences())

    def sequences(self) -> Iterator[Example]:
        """Every token sequence: one of a row, two of a pair."""
        yield from self.examples
        for pair in self.pairs:
            yield from (pair.chosen, pair.rejected)
        yield from (rated.example for rated in self.rated_examples)


class InvalidDataset(BadRequest):
    """A dataset that cannot be trained on: "Line 3: messages[0].role must be …".

    line  where the row begins, from 1; None: the dataset as a whole
    """

    def __init__(self, line: int | None, rule: str, got: Any = ...) -> None:
        super().__init__("", rule if line is None else f"Line {line}: {rule}", got)
        self.line = line
