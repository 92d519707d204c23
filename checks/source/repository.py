"""A model's files as they lie somewhere, and what is known of them before a byte of weights is read."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from checks.source.file import File
from checks.source.forms import holds_weights
from checks.source.tensors import Headers
from inference.model.gguf.parts import GGUF


@dataclass(frozen=True, slots=True)
class Repository:
    """A model's files: `files` are those that will be loaded, `names` all that there are.

    folder   where it lies; None while it is still on the Hub
    commit   the version on the Hub that everything after is pinned to; empty for a folder
    config   its config.json
    now      its name on the Hub, where that has changed
    licence  as its authors call it; empty where that is not known
    values   how many its GGUF file has, as the Hub counts them; 0 where it does not say
    notes    the folder that has those of its small files which a verdict reads
    headers  what its files of weights hold; None where nobody has looked
    """

    name: str
    revision: str
    commit: str
    folder: Path | None
    files: tuple[File, ...]
    names: tuple[str, ...]
    config: Mapping[str, Any]
    now: str = ""
    licence: str = ""
    values: int = 0
    notes: Path | None = None
    headers: Headers | None = None

    @property
    def weights(self) -> int:
        """Bytes of the weights as they are stored."""
        return sum(file.size for file in self.held)

    @property
    def held(self) -> list[File]:
        """The files that hold weights."""
        return [file for file in self.files if holds_weights(file.name)]

    @property
    def gguf(self) -> str:
        """The name of the GGUF file that the model is; empty where it is none."""
        return next((file.name for file in self.files if file.name.endswith(GGUF)), "")

    @property
    def wanted(self) -> list[File]:
        """The files to fetch, one for each content."""
        return list({file.etag or file.name: file for file in self.files if not file.here}.values())

    @property
    def to_fetch(self) -> int:
        """Bytes."""
        return sum(file.left for file in self.wanted)
