"""Reads the input file of a batch: JSON lines, each with an id of the client's, a path and a request's body.

Checks what is common to all requests. The body is passed on as it is: the dialect judges it when it is run.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from api.batches.types import BatchError
from inference.errors import ServerError, short

MAX_REQUESTS = 50_000  # OpenAI's limit
MAX_ERRORS = 100  # that a batch lists
MAX_ID_CHARS = 512
HEAD_BYTES = 16 << 10  # of a line, beside its body
UTF_8_MARK = b"\xef\xbb\xbf"
METHOD = "POST"
MALFORMED = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)

CheckModel = Callable[[str], object]  # raises ServerError for the name of a model that is not served


class LineRequest(NamedTuple):
    """One request of a batch. number: of its line, from 1; body: JSON."""

    number: int
    custom_id: str
    body: bytes


@dataclass(frozen=True, slots=True)
class InputRules:
    """What the lines of a file must be. max_body_bytes: of a request's body."""

    endpoint: str
    max_body_bytes: int
    check_model: CheckModel


class InputSummary(NamedTuple):
    """What a file has. model: the name in all its requests; None: they have none, or several."""

    num_requests: int
    model: str | None
    errors: tuple[BatchError, ...]


class BodyHead(msgspec.Struct):
    """The fields of a body that a batch looks at."""

    model: Any = None
    stream: Any = None
    background: Any = None


class InvalidRequestLine(Exception):
    """A line breaks a rule."""

    def __init__(self, code: str, message: str, param: str | None = None) -> None:
        super().__init__(message)
        self.code, self.message, self.param = code, message, param


LINE_DECODER = msgspec.json.Decoder(dict[str, msgspec.Raw])
TEXT_DECODER = msgspec.json.Decoder(str)
BODY_DECODER = msgspec.json.Decoder(BodyHead)


def summarize_input(path: Path, rules: InputRules) -> InputSummary:
    """Check all lines of a file."""
    checker = LineChecker(rules)
    errors: list[BatchError] = []
    for number, line in read_lines(path, rules.max_body_bytes + HEAD_BYTES):
        try:
            if line.strip():
                checker.check(line)
        except InvalidRequestLine as error:
            errors.append(BatchError(error.code, error.message, error.param, number))
        if number > MAX_REQUESTS:
            message = f"A batch has at most {MAX_REQUESTS} lines, and this file has more: divide it."
            errors.append(BatchError("too_many_requests", message, "input_file_id", number))
        if len(errors) >= MAX_ERRORS or number > MAX_REQUESTS:
            break
    if not errors and not checker.custom_ids:
        errors.append(BatchError("empty_file", "The input file has no requests.", "input_file_id"))
    model = next(iter(checker.models)) if len(checker.models) == 1 else None
    return InputSummary(len(checker.custom_ids), model, tuple(errors))


def read_requests(path: Path) -> Iterator[LineRequest]:
    """The requests of a file whose lines were checked."""
    for number, line in read_lines(path):
        if line.strip():
            fields = LINE_DECODER.decode(line)
            yield LineRequest(number, TEXT_DECODER.decode(fields["custom_id"]), bytes(fields["body"]))


def read_lines(path: Path, max_bytes: int = -1) -> Iterator[tuple[int, bytes]]:
    """The lines with their numbers. The start of a line that is longer than max_bytes is the last one."""
    with path.open("rb") as file:
        number = 0
        while line := file.readline(max_bytes + 1 if max_bytes >= 0 else -1):
            number += 1
            yield number, line if number > 1 else line.removeprefix(UTF_8_MARK)
            if 0 <= max_bytes < len(line):
                return


class LineChecker:
    """Checks the lines of one file, and collects their ids and models."""

    def __init__(self, rules: InputRules) -> None:
        self.custom_ids: set[str] = set()
        self.models: set[str | None] = set()
        self._rules = rules

    def check(self, line: bytes) -> None:
        """Raises InvalidRequestLine."""
        if len(line) > self._rules.max_body_bytes + HEAD_BYTES:
            raise InvalidRequestLine("invalid_request", self._too_large())
        try:
            fields = LINE_DECODER.decode(line)
        except MALFORMED as error:
            raise InvalidRequestLine(
                "invalid_json_line", f"This line is not parseable as a JSON object: {error}"
            ) from None
        custom_id, method, url = (self._read_text(fields, name) for name in ("custom_id", "method", "url"))
        if "body" not in fields:
            raise InvalidRequestLine("missing_required_parameter", "Missing required parameter: body", "body")
        if method.upper() != METHOD:
            raise InvalidRequestLine(
                "invalid_method", f"method must be {METHOD}, got {short(method)}", "method"
            )
        endpoint = self._rules.endpoint
        if url != endpoint:
            message = f"url must be {endpoint}, the endpoint of the batch, got {short(url)}"
            raise InvalidRequestLine("invalid_url", message, "url")
        self._check_body(bytes(fields["body"]))
        self._add_id(custom_id)

    def _read_text(self, fields: dict[str, msgspec.Raw], name: str) -> str:
        if name not in fields:
            raise InvalidRequestLine(
                "missing_required_parameter", f"Missing required parameter: {name}", name
            )
        try:
            return TEXT_DECODER.decode(fields[name])
        except MALFORMED:
            raise InvalidRequestLine("invalid_request", f"{name} must be a string", name) from None

    def _check_body(self, body: bytes) -> None:
        if len(body) > self._rules.max_body_bytes:
            raise InvalidRequestLine("invalid_request", self._too_large(), "body")
        try:
            head = BODY_DECODER.decode(body)
        except MALFORMED:
            raise InvalidRequestLine("invalid_request", "body must be a JSON object", "body") from None
        if head.stream:
            message = "stream is not supported in batches: leave it out"
            raise InvalidRequestLine("streaming_unsupported", message, "body.stream")
        if head.background:
            message = "background is not supported in batches, which run in the background: leave it out"
            raise InvalidRequestLine("invalid_request", message, "body.background")
        model = head.model if isinstance(head.model, str) else None
        if model not in self.models and model is not None:
            try:
                self._rules.check_model(model)
            except ServerError as error:
                raise InvalidRequestLine("model_not_found", error.message, "body.model") from None
        self.models.add(model)

    def _too_large(self) -> str:
        megabytes = self._rules.max_body_bytes / 1e6
        return f"body must have at most {megabytes:g} MB: send less, or raise MAX_BODY_MB"

    def _add_id(self, custom_id: str) -> None:
        if not 1 <= len(custom_id) <= MAX_ID_CHARS:
            rule = f"custom_id must have 1 to {MAX_ID_CHARS} characters, got {len(custom_id)}"
            raise InvalidRequestLine("invalid_request", rule, "custom_id")
        if custom_id in self.custom_ids:
            message = f"custom_id {short(custom_id)} is that of an earlier line: each line needs its own"
            raise InvalidRequestLine("duplicate_custom_id", message, "custom_id")
        self.custom_ids.add(custom_id)
