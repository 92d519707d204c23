"""The result files of a batch: a line for each answered request, in the order of the answers.

A line is on the disk before the next one is begun. What is there after a kill of the server is read again:
whole lines count, and a torn one is cut off.
"""

import os
from collections.abc import Iterator
from pathlib import Path

import msgspec

from api.batches.input_file import LineRequest
from api.batches.request_runner import LineAnswer
from api.batches.types import RequestCounts, TokenUsage

OUTPUT_FILE, ERROR_FILE = "output.jsonl", "errors.jsonl"  # status 200; the others
EXPIRED = {
    "code": "batch_expired",
    "message": "This request could not be executed before the completion window expired.",
}


class TokenDetails(msgspec.Struct):
    cached_tokens: int | None = None
    reasoning_tokens: int | None = None


class AnswerUsage(msgspec.Struct):
    """The field `usage` of each kind of line_answer."""

    prompt_tokens: int | None = None
    prompt_tokens_details: TokenDetails | None = None
    completion_tokens: int | None = None
    input_tokens: int | None = None
    input_tokens_details: TokenDetails | None = None
    output_tokens: int | None = None
    output_tokens_details: TokenDetails | None = None


class AnswerBody(msgspec.Struct):
    usage: AnswerUsage | None = None


class LineResponse(msgspec.Struct):
    status_code: int
    request_id: str
    body: msgspec.Raw


class ResultLine(msgspec.Struct):
    """A line of a result file. response: None: the request was not run."""

    id: str
    custom_id: str
    response: LineResponse | None
    error: dict[str, str] | None


LINE_DECODER = msgspec.json.Decoder(ResultLine)
BODY_DECODER = msgspec.json.Decoder(AnswerBody)
ENCODER = msgspec.json.Encoder()


class ResultFiles:
    """The two result files in a batch's folder, which are read, or created.

    answered       numbers of the lines of the input file that have a result
    num_completed  results with status 200; num_failed: others
    has_expired    some requests were given up
    """

    def __init__(self, folder: Path, batch_key: str) -> None:
        self.answered: set[int] = set()
        self.usage = TokenUsage()
        self.num_completed = self.num_failed = 0
        self.has_expired = False
        self._batch_key = batch_key
        self._output = self._open(folder / OUTPUT_FILE)
        self._errors = self._open(folder / ERROR_FILE)

    @property
    def output_path(self) -> Path:
        return self._output.path

    @property
    def error_path(self) -> Path:
        return self._errors.path

    def counts(self, total: int) -> RequestCounts:
        return RequestCounts(total, self.num_completed, self.num_failed)

    def add(self, request: LineRequest, line_answer: LineAnswer) -> None:
        """Raises OSError; then nothing is added."""
        response = LineResponse(line_answer.status, line_answer.request_id, msgspec.Raw(line_answer.body))
        self._write(self._result(request, response, None))

    def add_expired(self, request: LineRequest) -> None:
        """Raises OSError; then nothing is added."""
        self._write(self._result(request, None, EXPIRED))

    def sync(self) -> None:
        """Let the results outlive a crash of the system. Raises OSError."""
        for file in (self._output, self._errors):
            file.sync()

    def close(self) -> None:
        for file in (self._output, self._errors):
            file.close()

    def _result(
        self, request: LineRequest, response: LineResponse | None, error: dict[str, str] | None
    ) -> ResultLine:
        id = f"batch_req_{self._batch_key}_{request.number}"
        return ResultLine(id, request.custom_id, response, error)

    def _write(self, result: ResultLine) -> None:
        file = self._output if is_success(result) else self._errors
        file.append(ENCODER.encode(result).replace(b"\n", b" ") + b"\n")
        self._count(result)

    def _count(self, result: ResultLine) -> None:
        self.answered.add(int(result.id.rpartition("_")[2]))
        if is_success(result):
            assert result.response is not None
            self.num_completed += 1
            self.usage += read_usage(result.response.body)
        else:
            self.num_failed += 1
            self.has_expired |= result.response is None

    def _open(self, path: Path) -> "AppendedFile":
        file = AppendedFile(path)
        size = 0
        for line in file.lines():
            try:
                self._count(LINE_DECODER.decode(line))
            except (msgspec.DecodeError, UnicodeDecodeError, ValueError):
                break
            size += len(line)
        file.truncate(size)
        return file


class AppendedFile:
    """A file of lines that grows by whole lines."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._size = 0
        self._file = path.open("ab", buffering=0)
        path.chmod(0o600)

    def lines(self) -> Iterator[bytes]:
        """The lines that are there, without a torn last one."""
        with self.path.open("rb") as file:
            for line in file:
                if line.endswith(b"\n"):
                    yield line

    def truncate(self, size: int) -> None:
        self._file.truncate(size)
        self._size = size

    def append(self, line: bytes) -> None:
        """Raises OSError; then the file is as before."""
        unwritten = memoryview(line)
        try:
            while unwritten:
                unwritten = unwritten[self._file.write(unwritten) :]
        except OSError:
            self._file.truncate(self._size)
            raise
        self._size += len(line)

    def sync(self) -> None:
        """Raises OSError."""
        os.fsync(self._file.fileno())

    def close(self) -> None:
        self._file.close()


def is_success(result: ResultLine) -> bool:
    return result.response is not None and result.response.status_code == 200


def read_usage(body: msgspec.Raw) -> TokenUsage:
    """The tokens that an answer reports; none if it has no such report."""
    try:
        usage = BODY_DECODER.decode(body).usage or AnswerUsage()
    except msgspec.DecodeError:
        return TokenUsage()
    details = usage.prompt_tokens_details or usage.input_tokens_details or TokenDetails()
    output_details = usage.output_tokens_details or TokenDetails()
    return TokenUsage(
        input=usage.prompt_tokens or usage.input_tokens or 0,
        cached=details.cached_tokens or 0,
        output=usage.completion_tokens or usage.output_tokens or 0,
        reasoning=output_details.reasoning_tokens or 0,
    )
