"""Converts the body of a pass to the trainer's data, after checks of every datum. Raises BadRequest."""

from collections.abc import Mapping

import numpy as np

from api.tinker.errors import NotServed
from api.tinker.pass_body import DatumBody, OtherChunk, PassBody
from api.tinker.tensors import FLOAT, INTEGER, Array, Tensor, to_dense
from inference.backend_info import ModelInfo
from inference.errors import BadRequest
from tuning.runs.types import ForwardBackward
from tuning.trainer.datum import Datum
from tuning.trainer.losses.table import Loss, find_loss

TARGETS, WEIGHTS = "target_tokens", "weights"
MAX_NUMBER = float(np.finfo(FLOAT).max)  # the trainer computes in float32
STABLE_REINFORCE = "stable_reinforce"
SERVED_LOSSES = ("cross_entropy", "importance_sampling", "ppo", "cispo", "dro", "gspo")


def to_forward_backward(body: PassBody, info: ModelInfo) -> ForwardBackward:
    """The pass as the trainer computes it. Raises BadRequest.

    info: of the base model, whose context and vocabulary are the limits.
    """
    loss = find_served_loss(body.loss_fn)
    if not body.data:
        raise BadRequest("data", "must have at least one datum")
    return ForwardBackward(
        data=[to_datum(datum, f"data[{i}]", loss, info) for i, datum in enumerate(body.data)],
        loss_fn=body.loss_fn,
        config=read_config(body.loss_fn_config),
        forward_only=body.forward_only,
    )


def find_served_loss(loss_fn: str) -> Loss:
    """A loss that Tinker's clients know: the trainer's others are for pairs, in jobs."""
    if loss_fn == STABLE_REINFORCE:
        raise NotServed("loss_fn stable_reinforce", "set loss_fn=importance_sampling")
    if loss_fn not in SERVED_LOSSES:
        raise BadRequest("loss_fn", f"must be one of {', '.join(SERVED_LOSSES)}", loss_fn)
    return find_loss(loss_fn)


def read_config(config: Mapping[str, float | str]) -> dict[str, float]:
    numbers = {}
    for name, value in config.items():
        if isinstance(value, str) or not abs(value) <= MAX_NUMBER:
            raise BadRequest(f"loss_fn_config.{name}", "must be a finite number in float32", value)
        numbers[name] = float(value)
    return numbers


def to_datum(body: DatumBody, field: str, loss: Loss, info: ModelInfo) -> Datum:
    token_ids = read_tokens(body, field, info)
    tensors = {TARGETS: None, **dict.fromkeys(loss.inputs), **body.loss_fn_inputs}
    unknown = tensors.keys() - {TARGETS, *loss.inputs}
    if unknown:
        names = ", ".join((TARGETS, *loss.inputs))
        raise BadRequest(f"{field}.loss_fn_inputs", f"may have {names}", min(unknown))
    if WEIGHTS in tensors and tensors[WEIGHTS] is None:
        tensors[WEIGHTS] = ones_like(tensors[TARGETS])
    arrays = {
        name: read_input(tensor, f"{field}.loss_fn_inputs.{name}", len(token_ids), loss)
        for name, tensor in tensors.items()
    }
    targets = arrays.pop(TARGETS)
    check_inputs(targets, arrays, f"{field}.loss_fn_inputs", info)
    return Datum(token_ids, targets, {name: array.astype(FLOAT) for name, array in arrays.items()})


def read_tokens(body: DatumBody, field: str, info: ModelInfo) -> Array:
    for chunk in body.model_input:
        if isinstance(chunk, OtherChunk):
            raise NotServed(f"{field}.model_input with a chunk of the type {chunk.kind}", "send tokens alone")
    chunks = [chunk for chunk in body.model_input if not isinstance(chunk, OtherChunk)]
    token_ids = np.concatenate([np.empty(0, INTEGER), *chunks]).astype(INTEGER)
    if len(token_ids) == 0 or len(token_ids) > (info.context or len(token_ids)):
        raise BadRequest(f"{field}.model_input", f"must have 1 to {info.context} tokens", len(token_ids))
    check_token_ids(token_ids, f"{field}.model_input", info)
    return token_ids


def ones_like(targets: Tensor | None) -> Tensor | None:
    """Weights for all targets, in their layout: a cell of sparse targets that has no target has none."""
    if targets is None:
        return None
    return Tensor(np.ones(len(targets.values), FLOAT), targets.shape, targets.csr)


def read_input(tensor: Tensor | None, field: str, num_tokens: int, loss: Loss) -> Array:
    """The array of an input, (N,) or (N, K)."""
    if tensor is None:
        raise BadRequest(field, "is required")
    shape = list(tensor.shape) if tensor.shape is not None else [len(tensor.values)]
    if shape[:1] != [num_tokens] or len(shape) > 1 + loss.candidates:
        columns = " or [N, K]" if loss.candidates else ""
        raise BadRequest(f"{field}.shape", f"must be [N]{columns} with N = {num_tokens} tokens", shape)
    return to_dense(tensor, field)


def check_inputs(targets: Array, inputs: Mapping[str, Array], field: str, info: ModelInfo) -> None:
    if targets.dtype != INTEGER:
        raise BadRequest(f"{field}.{TARGETS}.dtype", "must be int64")
    check_token_ids(targets, f"{field}.{TARGETS}", info)
    for name, array in inputs.items():
        if array.shape != targets.shape:
            rule = f"must be that of {TARGETS}, {list(targets.shape)}"
            raise BadRequest(f"{field}.{name}.shape", rule, list(array.shape))
        if not np.isfinite(array).all():
            raise BadRequest(f"{field}.{name}", "must be finite numbers")


def check_token_ids(token_ids: Array, field: str, info: ModelInfo) -> None:
    wrong = token_ids[(token_ids < 0) | (token_ids >= info.vocab)]
    if wrong.size:
        raise BadRequest(field, f"must have token ids from 0 to {info.vocab - 1}", int(wrong[0]))
