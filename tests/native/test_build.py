"""The library is compiled into a cache, once, or there is a reason why not."""

from pathlib import Path

import pytest

from inference.native import build
from inference.native.build import Unbuilt
from inference.native.levels import PLAIN, Level


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache, and one source that is compiled at once."""
    sources = tmp_path / "c"
    sources.mkdir()
    (sources / "multiply_plain.c").write_text("int answer(void) { return 42; }\n")
    (sources / "multiply_other.c").write_text("#error of another level\n")
    monkeypatch.setattr(build, "SOURCES", sources)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path


def needs_a_compiler() -> None:
    try:
        build.compiler_of()
    except Unbuilt as reason:
        pytest.skip(str(reason))


def test_a_library_is_built_once_and_nothing_else_is_left(folder: Path) -> None:
    needs_a_compiler()
    library = build.built(PLAIN)
    assert library.is_relative_to(folder / "cache" / "hearth" / "native")
    made = library.stat().st_mtime_ns
    assert build.built(PLAIN) == library and library.stat().st_mtime_ns == made
    assert [path.name for path in library.parent.iterdir()] == ["hearth_plain.so"]


def test_other_sources_or_flags_are_another_library(folder: Path) -> None:
    needs_a_compiler()
    first = build.built(PLAIN)
    flagged = build.built(Level("plain", "plain", ("-DOTHER",)))
    (folder / "c" / "multiply_plain.c").write_text("int answer(void) { return 43; }\n")
    assert len({first, flagged, build.built(PLAIN)}) == 3


def test_what_the_compiler_finds_wrong_is_the_reason(folder: Path) -> None:
    needs_a_compiler()
    with pytest.raises(Unbuilt, match="of another level"):
        build.built(Level("other", "other"))
    assert not list((folder / "cache").rglob("*.so"))


def test_without_a_compiler_the_reason_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CC", raising=False)
    monkeypatch.setenv("PATH", "")
    with pytest.raises(Unbuilt, match="no C compiler: install gcc"):
        build.built(PLAIN)


def test_the_compiler_that_cc_names_comes_first(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    named = folder / "mycc"
    named.write_text("#!/bin/sh\necho mine\n")
    named.chmod(0o755)
    monkeypatch.setenv("CC", f"{named} -m64")
    assert build.compiler_of() == (str(named), "-m64")


def test_a_cache_that_cannot_be_written_is_a_reason(folder: Path) -> None:
    needs_a_compiler()
    (folder / "cache").write_text("a file in its place")
    with pytest.raises(Unbuilt, match="nothing can be kept in"):
        build.built(PLAIN)
