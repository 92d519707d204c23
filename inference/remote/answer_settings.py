"""The settings of a Hearth that change its answers: servers of one model must agree in them.

An answer that one of them has begun may go on at another one.
"""

from collections.abc import Mapping, Sequence
from typing import Any

# In every response of a Hearth: another value at each start, whose settings may be others.
START_HEADER = "X-Hearth-Start"
# The setting behind each key of a model's metadata in /v1/models.
SETTING_OF_KEY: Mapping[str, str] = {
    "architecture": "MODEL_NAME",
    "weights": "MODEL_REVISION",
    "dtype": "DTYPE",
    "quantize": "QUANTIZE",
    "kv_dtype": "KV_DTYPE",
    "tool_format": "TOOL_FORMAT",
}

AnswerSettings = Mapping[str, str]  # the values by their keys; empty: the server does not say


def answer_settings(metadata: Any) -> AnswerSettings:
    """The settings that a model's metadata states."""
    known = metadata if isinstance(metadata, Mapping) else {}
    return {key: known[key] for key in SETTING_OF_KEY if isinstance(known.get(key), str)}


def disagreement(settings: AnswerSettings, others: Sequence[AnswerSettings]) -> str:
    """How a server would answer differently from the others of its model; empty: it would not."""
    for other in others:
        for key in settings.keys() & other.keys():
            if settings[key] != other[key]:
                name = SETTING_OF_KEY[key]
                return (
                    f"it would answer differently: {name} ({key}) is {settings[key]!r} there, and "
                    f"{other[key]!r} at another server of the model: start them with the same {name}"
                )
    return ""
