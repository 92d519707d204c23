"""The checks of training data, datum by datum."""

from dataclasses import replace

import numpy as np
import pytest

from api.tinker.data import to_forward_backward
from api.tinker.loss_aliases import alias_warning, parse_aliases, resolve_alias
from api.tinker.pass_body import Chunk, DatumBody, OtherChunk, PassBody
from api.tinker.tensors import Csr, Tensor
from inference.backend_info import ModelInfo
from inference.errors import BadRequest

MAX_INT64 = (1 << 63) - 1
INFO = ModelInfo("fake/model", context=8, vocab=100, created=0)
SAMPLED = {"logprobs": Tensor(np.zeros(3, np.float32)), "advantages": Tensor(np.ones(3, np.float32))}


def tokens(*ids: int) -> Chunk:
    return np.array(ids, np.int32)


def targets(*ids: int, shape: tuple[int, ...] | None = None) -> Tensor:
    return Tensor(np.array(ids, np.int64), shape)


def floats(*values: float, shape: tuple[int, ...] | None = None) -> Tensor:
    return Tensor(np.array(values, np.float32), shape)


def a_pass(*chunks: Chunk, loss_fn: str = "cross_entropy", **inputs: Tensor) -> PassBody:
    datum = DatumBody(chunks or (tokens(1, 2, 3),), {"target_tokens": targets(2, 3, 4), **inputs})
    return PassBody([datum], loss_fn, {}, forward_only=False)


def refusal(body: PassBody) -> str:
    with pytest.raises(BadRequest) as refused:
        to_forward_backward(body, INFO)
    return refused.value.message


def test_chunks_are_joined_and_weights_are_one_by_default() -> None:
    (datum,) = to_forward_backward(a_pass(tokens(1), tokens(2, 3)), INFO).data
    assert (list(datum.token_ids), list(datum.target_ids)) == ([1, 2, 3], [2, 3, 4])
    assert {name: list(values) for name, values in datum.inputs.items()} == {"weights": [1, 1, 1]}


def test_losses_of_samples_take_weights_which_are_one_by_default() -> None:
    def weights(**inputs: Tensor) -> list[float]:
        (datum,) = to_forward_backward(a_pass(loss_fn="importance_sampling", **SAMPLED, **inputs), INFO).data
        return list(datum.inputs["weights"])

    assert (weights(), weights(weights=floats(0, 1, 1))) == ([1, 1, 1], [0, 1, 1])


def test_several_targets_at_each_place() -> None:
    inputs = {
        "target_tokens": targets(1, 2, 3, 4, 5, 6, shape=(3, 2)),
        "weights": floats(*[0.5] * 6, shape=(3, 2)),
    }
    (datum,) = to_forward_backward(a_pass(**inputs), INFO).data
    assert np.array(datum.target_ids).tolist() == [[1, 2], [3, 4], [5, 6]]
    assert datum.inputs["weights"].shape == (3, 2)


def test_sparse_targets_without_weights_weigh_what_they_name() -> None:
    csr = Csr(np.array([0, 1, 1, 3]), np.array([1, 0, 1]))
    sparse = Tensor(np.array([7, 8, 9]), (3, 2), csr)
    (datum,) = to_forward_backward(a_pass(target_tokens=sparse), INFO).data
    assert np.array(datum.target_ids).tolist() == [[0, 7], [0, 0], [8, 9]]
    assert np.array(datum.inputs["weights"]).tolist() == [[0, 1], [0, 0], [1, 1]]


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (a_pass(tokens()), "data[0].model_input must have 1 to 8 tokens, got 0"),
        (a_pass(tokens(*range(9))), "data[0].model_input must have 1 to 8 tokens, got 9"),
        (a_pass(tokens(1, 2, 100)), "data[0].model_input must have token ids from 0 to 99, got 100"),
        (a_pass(tokens(1), OtherChunk("image")), "a chunk of the type image is not served here"),
        (a_pass(target_tokens=targets(1, 2)), "target_tokens.shape must be [N] or [N, K] with N = 3"),
        (a_pass(target_tokens=targets(1, 2, -1)), "target_tokens must have token ids from 0 to 99, got -1"),
        (a_pass(target_tokens=floats(1, 2, 3)), "target_tokens.dtype must be int64"),
        (a_pass(weights=floats(1, 2, float("nan"))), "weights must be finite numbers"),
        (a_pass(weights=floats(1, 2, 3, 4, shape=(3, 1))), "weights.shape must be that of the 4 numbers"),
        (a_pass(weights=floats(1, 2, 3, shape=(3, 1))), "weights.shape must be that of target_tokens, [3]"),
        (
            a_pass(mask=floats(1, 1, 1)),
            "data[0].loss_fn_inputs may have target_tokens, weights, got 'mask'",
        ),
        (a_pass(loss_fn="ppo"), "logprobs is required"),
        (
            a_pass(loss_fn="ppo", **SAMPLED, target_tokens=targets(1, 2, 3, shape=(3, 1))),
            "must be [N] with N",
        ),
        (a_pass(loss_fn="sum"), "loss_fn must be one of cross_entropy, importance_sampling"),
        (a_pass(loss_fn="stable_reinforce"), "set loss_fn=importance_sampling"),
        (replace(a_pass(), data=[]), "data must have at least one datum"),
        (
            replace(a_pass(), loss_fn_config={"beta": "x"}),
            "loss_fn_config.beta must be a finite number in float32, got 'x'",
        ),
        (
            replace(a_pass(), loss_fn_config={"clip_high_threshold": 1e308}),
            "loss_fn_config.clip_high_threshold must be a finite number in float32, got 1e+308",
        ),
    ],
)
def test_what_cannot_be_computed_is_refused(body: PassBody, message: str) -> None:
    assert message in refusal(body)


@pytest.mark.parametrize(
    ("shape", "row_starts", "columns"),
    [
        ((3, 65), [0, 1, 1, 3], [1, 0, 1]),
        ((3,), [0, 1, 1, 3], [1, 0, 1]),
        ((3, 2), [0, 1, 3], [1, 0, 1]),
        ((3, 2), [0, 2, 1, 3], [1, 0, 1]),
        ((3, 2), [0, 1, 1, 4], [1, 0, 1]),
        ((3, 2), [1, 1, 1, 3], [1, 0, 1]),
        ((3, 2), [0, 1, 1, 3], [1, 0]),
        ((3, 2), [0, 1, 1, 3], [1, 0, 2]),
        ((3, 2), [0, 1, 1, 3], [1, 0, -1]),
        ((3, 2), [], []),
        ((3, 2), [0, 2, 2, 3], [1, 1, 0]),
        ((3, 2), [0, MAX_INT64, -2, 3], [1, 0, 1]),  # each difference is positive in int64
    ],
)
def test_a_sparse_tensor_that_lies_is_refused(
    shape: tuple[int, ...], row_starts: list[int], columns: list[int]
) -> None:
    csr = Csr(np.array(row_starts, np.int64), np.array(columns, np.int64))
    assert refusal(a_pass(target_tokens=Tensor(np.array([7, 8, 9]), shape, csr))).startswith("data[0]")


def test_an_alias_computes_another_loss_without_the_config_of_its_own() -> None:
    aliases = parse_aliases("stable_reinforce:cispo")
    sent = replace(a_pass(loss_fn="stable_reinforce"), loss_fn_config={"alpha": 2.0})
    body = resolve_alias(sent, aliases)
    assert (body.loss_fn, body.loss_fn_config) == ("cispo", {})
    other = a_pass(loss_fn="ppo")
    assert resolve_alias(other, aliases) is other and resolve_alias(other, parse_aliases("")) is other
    assert alias_warning(aliases) == "loss_fn=stable_reinforce is computed as cispo"
    assert alias_warning({}) is None
