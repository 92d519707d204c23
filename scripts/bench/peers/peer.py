"""Another engine: where it is installed, which weights it computes with, how it starts."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from scripts.bench.contender import Contender, Player
from scripts.bench.models import folder
from scripts.bench.terms import Terms

BF16, INT8, INT4 = PRECISIONS = "bf16", "int8", "int4"


@dataclass(frozen=True, slots=True)
class Peer:
    """forms   what it calls each of PRECISIONS that it has
    needs   the file, below the folder of peers, without which it is not installed; "": nothing
    model   what it loads, made before anything is timed, from the terms and its form
    start   from the terms, its form, and that
    """

    name: str
    forms: Mapping[str, str]
    needs: str
    model: Callable[[Terms, str], Path]
    start: Callable[[Terms, str, Path], Player]

    def installed(self, terms: Terms) -> bool:
        return not self.needs or Path(terms.peers, self.needs).exists()

    def contender(self, terms: Terms, precision: str) -> Contender:
        model = partial(self.model, terms, self.forms[precision])
        return Contender(self.name, lambda: self.start(terms, self.forms[precision], model()), model)


def same(terms: Terms, form: str) -> Path:
    """The folder that we load, too."""
    return folder(terms.model)
