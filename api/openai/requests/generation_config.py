"""The settings of transformers' GenerationConfig in a body: `transformers chat` sends its own in this field.

Knows which field of the body each of them is. A setting that no field has is refused, unless its value has no
effect.
"""

from typing import Any, TypeVar

from msgspec import Struct, structs

from api.body.json_body import parse, to_struct
from api.body.large_json import WHOLE_BODY
from api.openai.errors import InvalidParameter
from api.openai.protocol.generation import CommonRequest
from inference.errors import BadRequest, short

FIELD = "generation_config"
FIELDS = {  # of the body, by the name in GenerationConfig
    "eos_token_id": "stop_token_ids",
    "max_new_tokens": "max_tokens",
    "min_new_tokens": "min_tokens",
    "min_p": "min_p",
    "repetition_penalty": "repetition_penalty",
    "stop_strings": "stop",
    "temperature": "temperature",
    "top_k": "top_k",
    "top_p": "top_p",
}
# Settings of the model or of transformers' own cache, which say nothing about the answer.
WITHOUT_EFFECT = (
    *("_from_model_config", "bos_token_id", "cache_implementation", "pad_token_id"),
    *("transformers_version", "use_cache"),
)
NEUTRAL: tuple[Any, ...] = (None, False, 0, 1, [], {}, "")

B = TypeVar("B", bound=CommonRequest)


class GenerationSettings(Struct):
    """The settings that FIELDS has, and do_sample: false, as by default, is greedy."""

    do_sample: bool | None = None
    eos_token_id: int | list[int] | None = None
    max_new_tokens: int | None = None
    min_new_tokens: int | None = None
    min_p: float | None = None
    repetition_penalty: float | None = None
    stop_strings: str | list[str] | None = None
    temperature: float | None = None
    top_k: int | None = None
    top_p: float | None = None


def apply_generation_config(body: B) -> B:
    """The body with the settings of its generation_config in those fields that are null.

    Raises InvalidParameter.
    """
    if body.generation_config is None:
        return body
    settings = _read(body.generation_config)
    values = {field: getattr(settings, name) for name, field in FIELDS.items()}
    if not settings.do_sample:
        values["temperature"] = 0
    if isinstance(settings.eos_token_id, int):
        values["stop_token_ids"] = [settings.eos_token_id]
    if getattr(body, "max_completion_tokens", None) is not None:
        del values["max_tokens"]
    return structs.replace(
        body, **{field: value for field, value in values.items() if getattr(body, field) is None}
    )


def _read(config: str | dict[str, Any]) -> GenerationSettings:
    try:
        value = parse(config.encode()) if isinstance(config, str) else config
        settings = to_struct(value, GenerationSettings)
    except BadRequest as error:
        raise InvalidParameter(error.message.replace(WHOLE_BODY, FIELD), FIELD) from None
    for name, setting in value.items():
        is_known = name in FIELDS or name in WITHOUT_EFFECT or name == "do_sample"
        if not is_known and (setting is True or setting not in NEUTRAL):
            raise InvalidParameter(f"{FIELD}: {short(name)} is not supported", FIELD)
    return settings
