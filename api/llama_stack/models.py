"""The model a body must name, under either of the keys that clients have had for it."""

from api.llama_stack.bodies import Named
from api.llama_stack.errors import UnknownModel
from api.models import known, shown
from api.settings import AppSettings
from inference.errors import BadRequest
from inference.types import ModelInfo


def check(body: Named, info: ModelInfo, settings: AppSettings) -> None:
    """Raises where the body names no model, or one that is not served."""
    name = body.model_id or body.model
    if not name:
        raise BadRequest("model_id", f"is required: this server has {info.id!r}")
    if not known(name, info, settings):
        raise UnknownModel(shown(name), info.id)
