"""What the answer must be, from any of the fields that say so, as a Constraint.

The spellings of OpenAI, of TGI, of huggingface_hub (which puts a schema beside json_object), and vLLM's
before and since 0.11. What a schema or a pattern means is found out by the backend.
"""

from collections.abc import Callable
from typing import Any

from api.openai.bodies import GeneratingBody, ResponseFormat, StructuredOutputs
from api.openai.errors import Refused, WrongBody
from api.settings import AppSettings
from inference.errors import short
from inference.types import Constraint

ONE_KIND = (
    "You can only use one kind of constraints for structured outputs ('json', 'regex' or 'choice')."  # vLLM's
)


def constraint(body: GeneratingBody, settings: AppSettings) -> Constraint | None:
    """Raises WrongBody, and Refused where the settings turn grammars off."""
    given = structured(body)
    form = _formatted(body.response_format) if body.response_format else None
    if given and form:
        raise WrongBody(ONE_KIND, "response_format")
    found = given or form
    if found and not settings.grammars:
        raise Refused("grammar is not supported: this server has been started without", "response_format")
    return found


def structured(body: GeneratingBody) -> Constraint | None:
    """Of structured_outputs and its elder fields, the one that is given."""
    given = body.structured_outputs or StructuredOutputs()
    if given.structural_tag is not None:
        raise Refused("structural_tag is not supported", "structured_outputs.structural_tag")
    found: list[Constraint] = []
    for source, fields in ((given, STRUCTURED), (body, GUIDED)):
        for field, make in fields.items():
            value = getattr(source, field)
            if value is not None and value is not False:
                found.append(make(value))
    if len(found) > 1:
        raise WrongBody(ONE_KIND, "structured_outputs")
    return found[0] if found else None


STRUCTURED: dict[str, Callable[[Any], Constraint]] = {
    "json": lambda value: Constraint("json_schema", value),
    "regex": lambda value: Constraint("regex", value),
    "choice": lambda value: Constraint("choice", value),
    "grammar": lambda value: Constraint("grammar", value),
    "json_object": lambda _: Constraint("json"),
}
GUIDED = {f"guided_{field}": STRUCTURED[field] for field in ("json", "regex", "choice", "grammar")}


def _formatted(given: ResponseFormat) -> Constraint | None:
    if given.type not in FORMATS:
        rule = f"must be one of {', '.join(FORMATS)}, got {short(given.type)}"
        raise WrongBody(f"response_format.type {rule}", "response_format.type")
    return FORMATS[given.type](given)


def _text(_: ResponseFormat) -> None:
    return None


def _json(given: ResponseFormat) -> Constraint:
    return Constraint("json") if given.value is None else Constraint("json_schema", given.value)


def _schema(given: ResponseFormat) -> Constraint:
    """OpenAI's named schema; TGI puts the same object into `value`."""
    named = given.json_schema
    if named is None and isinstance(given.value, dict):
        return Constraint("json_schema", given.value.get("schema", given.value))
    if named is None:
        raise WrongBody("response_format.json_schema is required", "response_format.json_schema")
    return Constraint("json_schema", named.schema) if isinstance(named.schema, dict) else Constraint("json")


def _regex(given: ResponseFormat) -> Constraint:
    if not isinstance(given.value, str):
        raise WrongBody("response_format.value must be a regular expression", "response_format.value")
    return Constraint("regex", given.value)


FORMATS: dict[str, Callable[[ResponseFormat], Constraint | None]] = {
    "text": _text,
    "json_object": _json,
    "json": _json,
    "json_schema": _schema,
    "regex": _regex,
}
