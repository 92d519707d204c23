"""What the trainer computes a loss over: sequences of token ids with numbers for each token.

Plain values only; every length is checked before the first pass.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from inference.errors import BadRequest


@dataclass(frozen=True, slots=True)
class Datum:
    """One sequence.

    token_ids   what the model reads
    target_ids  target_ids[i] follows token_ids[: i + 1]; as many as token_ids
    inputs      by the name that the loss knows it by: a number for each target
    """

    token_ids: Sequence[int]
    target_ids: Sequence[int]
    inputs: Mapping[str, Sequence[float]] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.token_ids)


def check_datum(datum: Datum, index: int, *, names: Sequence[str], vocab_size: int, context: int) -> None:
    """Raise BadRequest for a datum that a loss with the inputs `names` cannot be computed of."""
    field_name = f"data[{index}]"
    if not 0 < len(datum) <= context:
        raise BadRequest(f"{field_name}.token_ids", f"must have 1 to {context} tokens", len(datum))
    if len(datum.target_ids) != len(datum):
        rule = f"must have as many tokens as token_ids, {len(datum)}"
        raise BadRequest(f"{field_name}.target_ids", rule, len(datum.target_ids))
    for ids in (datum.token_ids, datum.target_ids):
        wrong = next((token for token in ids if not 0 <= token < vocab_size), None)
        if wrong is not None:
            raise BadRequest(f"{field_name}", f"must have token ids below {vocab_size}", wrong)
    for name in names:
        check_input(datum, field_name, name)


def check_input(datum: Datum, field_name: str, name: str) -> None:
    values = datum.inputs.get(name)
    if values is None:
        raise BadRequest(f"{field_name}.inputs", f"must have {name!r}")
    if len(values) != len(datum):
        rule = f"must have a number for each of the {len(datum)} tokens"
        raise BadRequest(f"{field_name}.inputs.{name}", rule, len(values))
    if not all(map(math.isfinite, values)):
        raise BadRequest(f"{field_name}.inputs.{name}", "must be finite numbers")
