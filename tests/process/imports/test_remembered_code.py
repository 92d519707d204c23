"""The methods of dataclasses are compiled by the first start only, and are the same."""

import dataclasses
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from inference.process.imports import remembered_code
from inference.process.imports.remembered_code import FILE_NAME, RememberedCode, remember_dataclass_methods


@pytest.fixture(autouse=True)
def cache_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The file of the code in a cache folder that is empty; afterwards dataclasses compile as before."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setitem(vars(dataclasses), "exec", exec)
    remembered_code.remembered_code.cache_clear()
    yield tmp_path / "hearth" / FILE_NAME
    remembered_code.remembered_code.cache_clear()


def start() -> tuple[type[Any], RememberedCode]:
    """A class that a start defines, and the code that it has then saved."""
    remembered_code.remembered_code.cache_clear()
    remember_dataclass_methods()

    @dataclasses.dataclass(frozen=True, slots=True, order=True)
    class Point:
        x: int
        y: float = 0.5
        names: list[str] = dataclasses.field(default_factory=list)

    codes = remembered_code.remembered_code()
    before = codes.has_new
    codes.save()
    codes.has_new = before
    return Point, codes


def test_a_second_start_compiles_nothing_and_has_the_same_class() -> None:
    (first, first_code), (second, second_code) = start(), start()
    assert first_code.has_new and not second_code.has_new
    assert first_code.codes == second_code.codes
    assert repr(first(1)).endswith("Point(x=1, y=0.5, names=[])") and repr(second(1)) == repr(first(1))
    assert second(1) < second(2) and second(1) == second(1) and second(1).names is not second(1).names
    with pytest.raises(dataclasses.FrozenInstanceError):
        second(1).x = 2


@pytest.mark.parametrize("content", [b"", b"damaged", b"i\x01\x00\x00\x00"])
def test_a_damaged_file_is_replaced(cache_file: Path, content: bytes) -> None:
    start()
    cache_file.write_bytes(content)
    assert start()[1].has_new
    assert not start()[1].has_new


@pytest.mark.system("posix")
def test_code_that_another_user_may_have_written_is_not_run(cache_file: Path) -> None:
    start()
    cache_file.chmod(0o666)
    assert start()[1].has_new
    assert not start()[1].has_new


def test_too_many_methods_are_collected_again(monkeypatch: pytest.MonkeyPatch) -> None:
    start()
    monkeypatch.setattr(remembered_code, "MAX_METHODS", 1)
    assert start()[1].has_new


def test_a_cache_folder_that_cannot_be_written_is_no_error(cache_file: Path) -> None:
    cache_file.parent.write_text("a file")
    assert start()[1].has_new and start()[1].has_new
