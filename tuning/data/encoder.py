"""Encodes the rows of a dataset's file as the method needs them. Knows files and events, no templates."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from inference.errors import BadRequest
from inference.finding import format_count
from inference.text.chat_template import ChatTemplate
from tuning.data.encoding_events import MAX_LISTED, SAME_ANSWERS, EncodingEvents, list_lines
from tuning.data.examples import Dataset, Example, InvalidDataset, PreferencePair, RatedExample
from tuning.data.row_encoder import RowEncoder, RowTooLong
from tuning.data.row_forms import (
    ParsedRow,
    Preference,
    Rating,
    RowForm,
    find_form,
    refuse_media,
    unread_columns,
)
from tuning.data.rows import JSONL, Row, open_rows
from tuning.types import Method


class Encoder:
    """Encodes datasets for one model.

    max_length      most tokens of a row; 0: no limit
    train_on_input  the tokens of prompts are trained, too
    """

    def __init__(
        self, tokenizer: Any, chat_template: ChatTemplate, *, max_length: int, train_on_input: bool = False
    ) -> None:
        self.row_encoder = RowEncoder(
            tokenizer, chat_template, max_length=max_length, train_on_input=train_on_input
        )

    def encode(self, path: Path, method: Method, media_type: str = JSONL) -> Dataset:
        """Encode all rows of a file. Raises InvalidDataset."""
        encoding = DatasetEncoding(self.row_encoder, method)
        for line, row in open_rows(path, media_type):
            try:
                encoding.add(row, line)
            except BadRequest as error:
                raise InvalidDataset(line, error.message) from None
        return encoding.dataset()


class DatasetEncoding:
    """The rows of a dataset so far."""

    def __init__(self, row_encoder: RowEncoder, method: Method) -> None:
        self._row_encoder = row_encoder
        self._method = method
        self._row_form: RowForm | None = None
        self._events = EncodingEvents()
        self._examples: list[Example] = []
        self._pairs: list[PreferencePair] = []
        self._rated_examples: list[RatedExample] = []
        self._num_pairs = self._num_same = 0  # of preferences: all, and those with two equal answers
        self._cut_lines: list[int] = []
        self._cut_lengths: list[int] = []

    def add(self, row: Row, line: int) -> None:
        """Encode a row, or count it if max_length cuts its answer. Raises BadRequest."""
        row_form = self._row_form = self._row_form or find_form(row, self._method)
        if not row_form.matches(row):
            rule = f"lacks a column that the rows before it have: their form is {row_form.describe()}"
            raise BadRequest("", f"{rule}; a dataset has rows of one form")
        refuse_media(row)
        self._events.unread_columns.update(dict.fromkeys(unread_columns(row, row_form)))
        try:
            self._encode(row_form.parse(row), line)
        except RowTooLong as too_long:
            self._cut_lines.append(line)
            self._cut_lengths.append(too_long.num_tokens)

    def _encode(self, row: ParsedRow, line: int) -> None:
        encode = self._row_encoder.encode
        match row:
            case Preference(chosen, rejected):
                good, bad = (encode(each, line, self._events) for each in (chosen, rejected))
                self._num_pairs += 1
                if good == bad:
                    self._events.add(SAME_ANSWERS, line)
                    self._num_same += 1
                if self._method == "kto":
                    self._rated_examples += (
                        RatedExample(good, is_desirable=True),
                        RatedExample(bad, is_desirable=False),
                    )
                else:
                    self._pairs.append(PreferencePair(good, bad, line))
            case Rating(trained_text, is_desirable):
                example = encode(trained_text, line, self._events)
                self._rated_examples.append(RatedExample(example, is_desirable))
            case _:
                self._examples.append(encode(row, line, self._events))

    def dataset(self) -> Dataset:
        """All rows. Raises InvalidDataset if max_length cuts each of them, or none teaches a preference."""
        assert self._row_form is not None, "open_rows yields at least one row"
        if not (self._examples or self._pairs or self._rated_examples):
            shortest = min(filter(None, self._cut_lengths), default=0)
            fix = f"raise it to at least {shortest}, or shorten the rows" if shortest else "shorten the rows"
            limit = self._row_encoder.max_length
            raise InvalidDataset(None, f"max_length ({limit} tokens) cuts the answer of every row: {fix}")
        if self._num_pairs and self._num_same == self._num_pairs:
            raise InvalidDataset(None, "every row has two answers that are the same: nothing can be learned")
        return Dataset(
            row_form=self._row_form.name,
            examples=self._examples,
            pairs=self._pairs,
            rated_examples=self._rated_examples,
            num_cut=len(self._cut_lines),
            cut_lines=tuple(self._cut_lines[:MAX_LISTED]),
            events=tuple(self._sentences()),
        )

    def _sentences(self) -> Iterator[str]:
        yield from self._events.sentences()
        if num_cut := len(self._cut_lines):
            rows = f"{format_count(num_cut, 'row')} ({list_lines(self._cut_lines[:MAX_LISTED], num_cut)})"
            limit, longest = self._row_encoder.max_length, max(self._cut_lengths)
            length = f"; the longest has {longest}" if longest else ""
            yield f"Left out: {rows}, whose answer max_length ({limit} tokens) would cut{length}."
