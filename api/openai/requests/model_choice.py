"""Which model or adapter answers a completion or chat: `model`, SGLang's `lora_path`, llama.cpp's `lora`."""

from api.hooks.adapter_sums import adapter_sums, parse_scales
from api.openai.errors import InvalidParameter
from api.openai.protocol.generation import CommonRequest
from inference.models import Models
from inference.served import Served, UnknownAdapter, shorten_name


def resolve_model(body: CommonRequest, models: Models) -> Served:
    """Raises UnknownModel and BadRequest."""
    served = models.resolve(body.model)
    name = _adapter_name(body.lora_path) if body.lora_path else None
    if body.lora is not None:
        if name or served.adapter:
            raise InvalidParameter("lora has scales, and an adapter is named too: send one of both", "lora")
        return adapter_sums().with_sum(served, parse_scales(served, body.lora, "lora"))
    if name is None:
        return served if served.adapter else adapter_sums().default_for(served)
    if name == served.adapter:
        return served
    if served.adapter:
        rule = f"lora_path is '{shorten_name(name)}', and model is another adapter: send one"
        raise InvalidParameter(rule, "lora_path")
    try:
        return _find_adapter(name, served, models)
    except UnknownAdapter as error:
        raise InvalidParameter(f"lora_path: {error.message}", "lora_path") from None


def _find_adapter(name: str, base: Served, models: Models) -> Served:
    """An adapter of `base`, or a model that all weights were trained for. Raises UnknownAdapter."""
    tuned = models.resolve_adapter(name)
    return tuned if tuned.card.fine_tuned_from else base.with_adapter(name)


def _adapter_name(lora_path: str | list[str | None]) -> str | None:
    """The name in lora_path; None: it names none. A list has a name for each prompt, all the same."""
    if isinstance(lora_path, str):
        return lora_path
    names = set(lora_path)
    if len(names) > 1:
        raise InvalidParameter("lora_path must name the same adapter for all prompts", "lora_path")
    return next(iter(names), None) or None
