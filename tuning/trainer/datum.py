"""What the trainer computes a loss over: sequences of token ids with numbers for each target.

Plain values and arrays; every shape is checked before the first pass.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from inference.errors import BadRequest

Array = np.ndarray[Any, np.dtype[Any]]
Integers = Sequence[int] | Array
Numbers = Sequence[float] | Array


@dataclass(frozen=True, slots=True, eq=False)
class Datum:
    """One sequence of N tokens.

    token_ids   (N,) what the model reads
    target_ids  (N,): target_ids[i] follows token_ids[: i + 1]; or (N, K): K candidates for each place
    inputs      by the name that the loss knows it by: a number for each target
    """

    token_ids: Integers
    target_ids: Integers
    inputs: Mapping[str, Numbers] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.token_ids)

    @property
    def num_bytes(self) -> int:
        return sum(
            np.asarray(each).nbytes for each in (self.token_ids, self.target_ids, *self.inputs.values())
        )

    def input(self, name: str, default: float | None) -> Array:
        """The numbers of an input, float32; `default` for each target if the datum does not have it."""
        if name not in self.inputs and default is not None:
            return np.full(np.shape(self.target_ids), default, np.float32)
        return np.asarray(self.inputs[name], np.float32)


def check_datum(
    datum: Datum,
    index: int,
    *,
    names: Iterable[str],
    optional: Collection[str],
    candidates: bool,
    vocab_size: int,
    context: int,
) -> None:
    """Raise BadRequest for a datum that a loss with the inputs `names` cannot be computed of.

    optional    inputs that may be absent
    candidates  whether the loss takes several targets for each place
    """
    field_name = f"data[{index}]"
    if not 0 < len(datum) <= context:
        raise BadRequest(f"{field_name}.token_ids", f"must have 1 to {context} tokens", len(datum))
    shape = np.shape(datum.target_ids)
    if shape[:1] != (len(datum),):
        rule = f"must have as many tokens as token_ids, {len(datum)}"
        raise BadRequest(f"{field_name}.target_ids", rule, shape[0] if shape else 0)
    if len(shape) > 1 and not (candidates and len(shape) == 2 and shape[1]):
        rule = (
            "must have one token, or a list of them, a place" if candidates else "must have one token a place"
        )
        raise BadRequest(f"{field_name}.target_ids", rule, list(shape))
    for ids in (np.asarray(datum.token_ids), np.asarray(datum.target_ids)):
        wrong = ids[(ids < 0) | (ids >= vocab_size)]
        if len(wrong):
            raise BadRequest(field_name, f"must have token ids below {vocab_size}", int(wrong[0]))
    for name in names:
        if name in datum.inputs or name not in optional:
            check_input(datum, field_name, name, shape)


def check_input(datum: Datum, field_name: str, name: str, shape: tuple[int, ...]) -> None:
    if name not in datum.inputs:
        raise BadRequest(f"{field_name}.inputs", f"must have {name!r}")
    values = np.asarray(datum.inputs[name])
    if values.shape != shape:
        rule = f"must have a number for each of the {' x '.join(map(str, shape))} tokens"
        got = len(values) if values.ndim == len(shape) == 1 else list(values.shape)
        raise BadRequest(f"{field_name}.inputs.{name}", rule, got)
    if not np.isfinite(values).all():
        raise BadRequest(f"{field_name}.inputs.{name}", "must be finite numbers")
