"""The tests make thousands of apps, each with the same pages: a process reads their files once."""

from collections.abc import Iterable
from pathlib import Path

from api.static_pages import StaticFile, StaticFiles


def remember() -> None:
    read = StaticFiles.__init__
    files_read: dict[tuple[Path, tuple[str, ...] | None], dict[str, StaticFile]] = {}

    def read_once(self: StaticFiles, folder: Path, names: Iterable[str] | None = None) -> None:
        key = (folder, None if names is None else tuple(names))
        if key not in files_read:
            read(self, folder, key[1])
            files_read[key] = self.files
        self.files = files_read[key]

    StaticFiles.__init__ = read_once  # type: ignore[method-assign]
