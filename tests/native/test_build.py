"""The library is compiled once into a cache, or the error gives the reason why not."""

import logging
import platform
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import torch

from inference.native import build
from inference.native.build import NativeUnavailable
from inference.native.cpu_levels import PLAIN, Level


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache, and a single source that compiles quickly."""
    source_folder = tmp_path / "c"
    source_folder.mkdir()
    (source_folder / "multiply_plain.c").write_text("int answer(void) { return 42; }\n")
    (source_folder / "multiply_other.c").write_text("#error of another level\n")
    monkeypatch.setattr(build, "C_SOURCES", source_folder)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path


def needs_a_compiler() -> None:
    try:
        build.compiler_of()
    except NativeUnavailable as reason:
        pytest.skip(str(reason))


def test_a_library_is_built_once_and_nothing_else_is_left(folder: Path) -> None:
    needs_a_compiler()
    library = build.build_library(PLAIN)
    assert library.is_relative_to(folder / "cache" / "hearth" / "native")
    built_at = library.stat().st_mtime_ns
    assert build.build_library(PLAIN) == library and library.stat().st_mtime_ns == built_at
    assert [path.name for path in library.parent.iterdir()] == ["hearth_plain.so"]


def test_a_library_that_others_can_write_is_built_again(folder: Path) -> None:
    needs_a_compiler()
    library = build.build_library(PLAIN)
    compiled = library.read_bytes()
    library.write_bytes(b"code of another user")
    library.chmod(0o777)
    assert build.build_library(PLAIN).read_bytes() == compiled
    library.write_bytes(b"code of another user")
    library.parent.chmod(0o777)
    assert build.build_library(PLAIN).read_bytes() == compiled
    assert library.parent.stat().st_mode & 0o022 == 0


def test_processes_at_once_build_a_library_once(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    needs_a_compiler()
    levels: list[Level] = []
    compile_into = build.compile_into

    def count(scratch: Path, compiler: tuple[str, ...], level: Level) -> Path:
        levels.append(level)
        return compile_into(scratch, compiler, level)

    monkeypatch.setattr(build, "compile_into", count)
    with ThreadPoolExecutor(3) as pool:
        libraries = list(pool.map(build.build_library, [PLAIN] * 3))
    assert len(set(libraries)) == len(levels) == 1


def test_other_sources_or_flags_are_another_library(folder: Path) -> None:
    needs_a_compiler()
    first = build.build_library(PLAIN)
    flagged = build.build_library(Level("plain", "plain", ("-DOTHER",)))
    (folder / "c" / "multiply_plain.c").write_text("int answer(void) { return 43; }\n")
    assert len({first, flagged, build.build_library(PLAIN)}) == 3


def test_a_compiler_error_is_the_reason(folder: Path) -> None:
    needs_a_compiler()
    with pytest.raises(NativeUnavailable, match="of another level"):
        build.build_library(Level("other", "other"))
    assert not list((folder / "cache").rglob("*.so"))


def test_without_a_compiler_the_reason_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CC", raising=False)
    monkeypatch.setenv("PATH", "")
    with pytest.raises(NativeUnavailable, match="no C compiler: install gcc"):
        build.build_library(PLAIN)


def test_the_compiler_that_cc_names_comes_first(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    named = folder / "mycc"
    named.write_text("#!/bin/sh\necho mine\n")
    named.chmod(0o755)
    monkeypatch.setenv("CC", f"{named} -m64")
    assert build.compiler_of() == (str(named), "-m64")


def test_a_compiler_in_cc_that_does_not_exist_is_reported(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    needs_a_compiler()
    monkeypatch.setenv("CC", "gccc -m64")
    with caplog.at_level(logging.WARNING):
        compiler = build.compiler_of()
    assert compiler[0] in build.COMPILERS
    assert f"CC=gccc is not on the PATH: {compiler[0]} is used" in caplog.text


def test_a_cache_that_cannot_be_written_is_a_reason(folder: Path) -> None:
    needs_a_compiler()
    (folder / "cache").write_text("a file in its place")
    with pytest.raises(NativeUnavailable, match="cannot be written to"):
        build.build_library(PLAIN)


def test_apples_compiler_links_torchs_openmp(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    library = tmp_path / "torch/lib/libomp.dylib"
    library.parent.mkdir(parents=True)
    library.touch()
    monkeypatch.setattr(torch, "__file__", str(tmp_path / "torch/__init__.py"))
    monkeypatch.setattr(platform, "system", lambda: "Darwin")
    assert build.compile_openmp() == ("-Xpreprocessor", "-fopenmp")
    assert build.link_openmp() == (str(library), f"-Wl,-rpath,{library.parent}")
