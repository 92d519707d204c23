"""What a dataset will train, before anything is trained: its first rows as text, and its counts."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import groupby, islice

from inference.text.detokenizer import make_detokenizer
from inference.text.vocabulary import Vocabulary
from tuning.data.encoder import Encoder
from tuning.data.examples import Dataset, Example

MAX_SHOWN_TOKENS = 2000  # of a row


@dataclass(frozen=True, slots=True)
class TextSegment:
    """Consecutive tokens of a row that are all trained, or of which none is."""

    text: str
    is_trained: bool
    num_tokens: int


@dataclass(frozen=True, slots=True)
class InspectedRow:
    """A row as it is trained.

    label     "chosen" or "rejected" in a pair, "desirable" or "undesirable" for kto; empty otherwise
    segments  the text, of the first 2,000 tokens at most
    """

    line: int
    label: str
    num_tokens: int
    num_trained_tokens: int
    segments: tuple[TextSegment, ...]


@dataclass(frozen=True, slots=True)
class Inspection:
    """A dataset as it is trained. rows: the first ones; the other fields are of all rows, see Dataset."""

    row_form: str
    num_rows: int
    num_tokens: int
    num_trained_tokens: int
    max_row_tokens: int
    num_cut: int
    cut_lines: tuple[int, ...]
    events: tuple[str, ...]
    rows: tuple[InspectedRow, ...]


def inspect(dataset: Dataset, encoder: Encoder, num_rows: int = 5) -> Inspection:
    """The counts of a dataset, and its first num_rows rows; a pair is two of InspectedRow."""
    vocabulary = encoder.row_encoder.vocabulary
    return Inspection(
        row_form=dataset.row_form,
        num_rows=len(dataset),
        num_tokens=dataset.num_tokens,
        num_trained_tokens=dataset.num_trained_tokens,
        max_row_tokens=max(len(example.token_ids) for example in dataset.sequences()),
        num_cut=dataset.num_cut,
        cut_lines=dataset.cut_lines,
        events=dataset.events,
        rows=tuple(
            inspect_row(example, label, vocabulary) for example, label in first_rows(dataset, num_rows)
        ),
    )


def first_rows(dataset: Dataset, num_rows: int) -> Iterator[tuple[Example, str]]:
    """(row, label)"""
    yield from ((example, "") for example in islice(dataset.examples, num_rows))
    for pair in islice(dataset.pairs, num_rows):
        yield from ((pair.chosen, "chosen"), (pair.rejected, "rejected"))
    for rated in islice(dataset.rated_examples, num_rows):
        yield rated.example, "desirable" if rated.is_desirable else "undesirable"


def inspect_row(example: Example, label: str, vocabulary: Vocabulary) -> InspectedRow:
    decoder = make_detokenizer(vocabulary, show_special=True)
    token_ids, weights = example.token_ids[:MAX_SHOWN_TOKENS], example.weights[:MAX_SHOWN_TOKENS]
    texts = list(map(decoder.feed, token_ids))
    texts[-1] += decoder.flush()
    segments = []
    for is_trained, group in groupby(zip(texts, weights, strict=True), key=lambda token: token[1] > 0):
        segment_texts = [text for text, _ in group]
        segments.append(TextSegment("".join(segment_texts), is_trained, len(segment_texts)))
    return InspectedRow(
        example.line, label, len(example.token_ids), example.num_trained_tokens, tuple(segments)
    )
