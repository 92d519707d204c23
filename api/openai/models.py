"""The model a body names, under any name that a client of this dialect may have for it."""

from api.models import known, shown
from api.openai.errors import UnknownModel
from api.settings import AppSettings
from inference.types import ModelInfo

STANDINS = frozenset({"", "tgi", "dummy"})  # what TGI's and huggingface_hub's clients call any model


def served(name: str | None, info: ModelInfo, settings: AppSettings) -> str:
    """The name for the model in replies: the one it was asked by. Raises UnknownModel."""
    if name is None or name in STANDINS:
        return info.id
    if not known(name, info, settings):
        raise UnknownModel(shown(name))
    return name
