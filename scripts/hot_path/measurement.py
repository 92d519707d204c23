"""The code that a request executed: as numbers, as a table and as a list of files."""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, NamedTuple

from checks.columns import align_columns
from scripts.hot_path.recorder import ROOT, ExecutionRecorder

HEADER = ("runner", "dialect", "files", "lines", "executed", "functions", "calls", "engine files", "lines")
ENGINE_FOLDERS = ("inference/engine/", "inference/model/", "inference/native/")  # from submit to sampler


class EnteredFunction(NamedTuple):
    """A function that ran. num_calls: starts and resumptions of its frames."""

    path: str
    name: str
    num_calls: int


@dataclass(frozen=True, slots=True)
class Measurement:
    """The code that one request executed.

    files      by path: the number of its executed lines, and of all its lines
    functions  each function that was entered
    """

    runner: str
    dialect: str
    files: dict[str, tuple[int, int]]
    functions: tuple[EnteredFunction, ...]

    @property
    def num_functions(self) -> int:
        return len(self.functions)

    @property
    def num_calls(self) -> int:
        return sum(function.num_calls for function in self.functions)

    @property
    def num_lines(self) -> int:
        return sum(total for _, total in self.files.values())

    @property
    def engine_files(self) -> list[str]:
        return [path for path in self.files if path.startswith(ENGINE_FOLDERS)]

    @property
    def num_engine_lines(self) -> int:
        return sum(self.files[path][1] for path in self.engine_files)

    @property
    def num_executed(self) -> int:
        return sum(executed for executed, _ in self.files.values())


def measurement(runner: str, dialect: str, recorder: ExecutionRecorder) -> Measurement:
    calls = Counter(recorder.calls)
    filenames = {code.co_filename for code in calls} | {filename for filename, _ in recorder.lines}
    executed = {name: sum(filename == name for filename, _ in recorder.lines) for name in filenames}
    files = {
        relative(name): (executed[name], len(Path(name).read_text().splitlines()))
        for name in sorted(filenames)
    }
    functions = (
        EnteredFunction(relative(code.co_filename), code.co_qualname, num_calls)
        for code, num_calls in calls.items()
    )
    return Measurement(runner, dialect, files, tuple(sorted(functions)))


def relative(filename: str) -> str:
    return Path(filename).relative_to(ROOT).as_posix()


def table(measurements: Sequence[Measurement]) -> Iterator[str]:
    return align_columns([HEADER, *map(row, measurements)], num_text_columns=2)


def row(each: Measurement) -> tuple[str, ...]:
    whole_path = (len(each.files), each.num_lines, each.num_executed, each.num_functions, each.num_calls)
    numbers = (*whole_path, len(each.engine_files), each.num_engine_lines)
    return each.runner, each.dialect, *(f"{number:,}" for number in numbers)


def file_list(each: Measurement) -> Iterator[str]:
    """A line for each file: executed lines / all lines, path."""
    yield f"{each.runner}, {each.dialect}"
    for path, (executed, total) in each.files.items():
        yield f"  {executed:4} / {total:3}  {path}"


def function_list(each: Measurement) -> Iterator[str]:
    """A line for each function, the most called first: calls, path, name."""
    yield f"{each.runner}, {each.dialect}"
    for path, name, num_calls in sorted(each.functions, key=lambda function: -function.num_calls):
        yield f"  {num_calls:5}  {path}  {name}"


def as_json(each: Measurement) -> dict[str, Any]:
    names = ("num_lines", "num_executed", "num_functions", "num_calls")
    return asdict(each) | {name: getattr(each, name) for name in names}
