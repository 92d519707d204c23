"""Checks that a file is JSON lines: UTF-8, one object a line. Does not know what the objects mean."""

import io
from pathlib import Path
from typing import Any, NoReturn

import orjson

from inference.errors import BadRequest
from inference.untrusted_json import MAX_LEVELS, TooDeep, check_levels
from tuning.data.examples import InvalidDataset
from tuning.data.rows import MAX_LINE_BYTES, UTF_8_MARK, jsonl_rows


def count_rows(path: Path, field: str) -> int:
    """The number of lines that are not blank, each of which is a JSON object.

    Raises BadRequest of `field` for the first other line, and for a file without an object.
    """
    num_rows = 0
    with path.open("rb") as file:
        number = 0
        while line := file.readline(MAX_LINE_BYTES + 1):
            number += 1
            line = line if number > 1 else line.removeprefix(UTF_8_MARK)
            if line.strip():
                check_row(line, number, field)
                num_rows += 1
    if not num_rows:
        raise InvalidLine(field, None, "the file has no rows: write a JSON object on each line")
    return num_rows


class InvalidLine(BadRequest):
    """A line of a file breaks a rule.

    line: from 1; None: the file as a whole.
    """

    def __init__(self, field: str, line: int | None, rule: str) -> None:
        super().__init__("", rule if line is None else f"Line {line}: {rule}")
        self.field = field


def check_row(line: bytes, number: int, field: str) -> None:
    def refuse(rule: str) -> NoReturn:
        raise InvalidLine(field, number, rule) from None

    if len(line) > MAX_LINE_BYTES:
        refuse(f"a line may have at most {MAX_LINE_BYTES} bytes")
    value: Any = None
    try:
        value = orjson.loads(line)
        if line.count(b"[") + line.count(b"{") > MAX_LEVELS:
            check_levels(value)
    except TooDeep as error:
        refuse(str(error))
    except orjson.JSONDecodeError as error:
        refuse(strict_rule(line) or f"is not JSON in UTF-8: {error.msg} at column {error.colno}")
    if not isinstance(value, dict):
        refuse('must be a JSON object, such as {"messages": […]}')


def strict_rule(line: bytes) -> str:
    """Why the reader of jobs refuses the line: it names other formats, and remedies. Empty: it does not."""
    try:
        list(jsonl_rows(io.BytesIO(line)))
    except InvalidDataset as error:
        return error.message.removeprefix("Line 1: ")
    return ""
