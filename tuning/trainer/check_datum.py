"""Refuses data of which a loss cannot be computed, with the field and the value."""

import numpy as np

from inference.errors import BadRequest
from tuning.trainer.datum import Datum
from tuning.trainer.losses.table import Loss


def check_datum(datum: Datum, index: int, loss: Loss, vocab_size: int, context: int) -> None:
    """Raise BadRequest for a datum that the loss cannot be computed of. index: its place in the pass."""
    field_name = f"data[{index}]"
    if not 0 < len(datum) <= context:
        raise BadRequest(f"{field_name}.token_ids", f"must have 1 to {context} tokens", len(datum))
    shape = np.shape(datum.target_ids)
    if shape[:1] != (len(datum),):
        rule = f"must have as many tokens as token_ids, {len(datum)}"
        raise BadRequest(f"{field_name}.target_ids", rule, shape[0] if shape else 0)
    if len(shape) > 1 and not (loss.candidates and len(shape) == 2 and shape[1]):
        rule = (
            "must have one token, or a list of them, a place"
            if loss.candidates
            else "must have one token a place"
        )
        raise BadRequest(f"{field_name}.target_ids", rule, list(shape))
    for ids in (np.asarray(datum.token_ids), np.asarray(datum.target_ids)):
        wrong = ids[(ids < 0) | (ids >= vocab_size)]
        if len(wrong):
            raise BadRequest(field_name, f"must have token ids below {vocab_size}", int(wrong[0]))
    for name in loss.inputs:
        if name in datum.inputs or name not in loss.absent:
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
