"""Requests for samples: what their fields mean, which ones are refused, and what the reply shows."""

import queue
from dataclasses import replace
from typing import Any

import pytest

from api.tinker.sampling.parse import SampleOptions, parse_sample
from api.tinker.sampling.result import SampleCollector, SampleResult, to_json
from inference.errors import BadRequest, ServerError, Unavailable
from inference.events import Finished, PromptToken, Started, Token, TopLogprob
from inference.prompt_scoring import PlaceScores, PromptScoring
from tests.fakes.fake_backend import FakeBackend, Script
from tests.timeouts import TIMEOUT_S

INFO = FakeBackend().info()
TOP = (TopLogprob(7, "x", -0.1), TopLogprob(8, "y", -2.5))


def body(params: dict[str, Any] | None = None, tokens: tuple[int, ...] = (10, 11), **fields: Any) -> Any:
    chunks = [{"type": "encoded_text", "tokens": [token]} for token in tokens]
    return {"prompt": {"chunks": chunks}, "sampling_params": params or {}, "seq_id": 0, **fields}


def test_the_chunks_of_a_prompt_are_one_prompt_and_the_defaults_change_nothing() -> None:
    generation = parse_sample(body(), INFO).generation
    assert generation.prompt == (10, 11)
    assert (generation.max_tokens, generation.n, generation.logprobs) == (None, 1, 0)
    assert generation.prompt_logprobs is None
    assert not generation.processed_logprobs, "logprobs are the model's own"
    assert generation.sampling == type(generation.sampling)()


@pytest.mark.parametrize(
    ("stop", "texts", "token_ids", "ignore_eos"),
    [
        (None, (), (), False),
        ([], (), (), True),
        ("\n\nUser:", ("\n\nUser:",), (), True),
        (["a", "b"], ("a", "b"), (), True),
        ([77, 78], (), (77, 78), True),
    ],
)
def test_stop_takes_the_place_of_the_end_tokens(
    stop: object, texts: tuple[str, ...], token_ids: tuple[int, ...], ignore_eos: bool
) -> None:
    generation = parse_sample(body({"stop": stop}), INFO).generation
    assert (generation.stop, generation.stop_token_ids, generation.ignore_eos) == (
        texts,
        token_ids,
        ignore_eos,
    )


def test_a_prompt_that_fills_the_context_can_be_scored() -> None:
    full = tuple(range(INFO.context or 0))
    assert parse_sample(body({"max_tokens": 1}, full, prompt_logprobs=True), INFO).generation.max_tokens == 0
    assert parse_sample(body({"max_tokens": 1}, full), INFO).generation.max_tokens == 1


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"prompt": {"chunks": []}}, "prompt must have at least one token"),
        (
            {"prompt": {"chunks": [{"type": "image", "data": "x"}]}},
            r"prompt.chunks\[0\].type must be encoded_text",
        ),
        ({"num_samples": 0}, "num_samples must be between 1 and 64, got 0"),
        ({"topk_prompt_logprobs": 21}, "topk_prompt_logprobs must be between 0 and 20, got 21"),
        ({"topk_sample_logprobs": -1}, "topk_sample_logprobs must be between 0 and 20, got -1"),
        (
            {"prompt_logprobs": True, "prompt_logprobs_last_n": 2},
            "prompt_logprobs_last_n must be between 1 and 1, got 2",
        ),
        ({"prompt_logprobs_last_n": 1}, "prompt_logprobs_last_n needs prompt_logprobs=true"),
        ({"record_stability_info": True}, "set loss_fn=importance_sampling"),
        ({"sampling_params": {"top_k": "x"}}, r"sampling_params\.top_k"),
    ],
)
def test_a_field_out_of_range_is_refused_by_its_name(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(BadRequest, match=message):
        parse_sample(body() | changes, INFO)


def test_stability_information_is_accepted_where_its_loss_is_computed_as_another() -> None:
    assert parse_sample(body(record_stability_info=True), INFO, serves_stability=True)


def collect(script: Script, options: SampleOptions) -> SampleResult | ServerError:
    """The outcome of a request whose stream has this script."""
    backend = FakeBackend(script)
    stream = backend.generate(parse_sample(body(), INFO).generation)
    outcomes: queue.SimpleQueue[SampleResult | ServerError] = queue.SimpleQueue()
    SampleCollector(stream, options, outcomes.put).start()
    outcome = outcomes.get(timeout=TIMEOUT_S)
    backend.close()
    assert stream.closed_at and outcomes.empty()
    return outcome


def prompt_tokens() -> tuple[PromptToken, ...]:
    return tuple(
        PromptToken(each, "", logprob, 1, TOP) for each, logprob in ((5, None), (6, -1.0), (7, -2.0))
    )


def two_sequences() -> Script:
    return [
        Started(0, 3, 2, (5, 6, 7), prompt_tokens()),
        Started(1, 3, 3, (5, 6, 7), prompt_tokens()),
        Token(1, 8, "", -0.25, TOP),
        Token(0, 7, "", -0.5, TOP),
        Finished(0, "length", num_tokens=1),
        Token(1, 9, "", -0.75, TOP),
        Finished(1, "stop", num_tokens=2),
    ]


def test_the_sequences_are_in_order_and_show_what_was_requested() -> None:
    result = collect(two_sequences(), SampleOptions(num_samples=2))
    assert isinstance(result, SampleResult)
    assert to_json(result) == {
        "type": "sample",
        "sequences": [
            {"stop_reason": "length", "tokens": [7], "logprobs": [-0.5]},
            {"stop_reason": "stop", "tokens": [8, 9], "logprobs": [-0.25, -0.75]},
        ],
        "prompt_cache_hit_tokens": 2,
    }


def test_logprobs_of_the_prompt_begin_with_the_second_token_or_the_last_n() -> None:
    top = ((7, -0.1), (8, -2.5))
    options = SampleOptions(num_samples=2, prompt_logprobs=True, num_prompt_top=2, num_top=2)
    result = collect(two_sequences(), options)
    assert isinstance(result, SampleResult)
    assert result.prompt_logprobs == [None, -1.0, -2.0]
    assert result.prompt_top_tokens == [None, top, top]
    assert result.sequences[1].top_tokens == [top, top]
    result = collect(two_sequences(), SampleOptions(num_samples=2, prompt_logprobs=True, num_scored=1))
    assert isinstance(result, SampleResult) and result.prompt_logprobs == [None, None, -2.0]


TARGETS = {"data": [7, -1, 8, 9], "dtype": "int64", "shape": [2, 2]}
SPARSE = TARGETS | {"data": [7, 8, 9], "sparse_crow_indices": [0, 1, 3], "sparse_col_indices": [0, 0, 1]}


@pytest.mark.parametrize(
    ("targets", "logprobs"), [(TARGETS, [-1.0, 0.0, -2.0, -3.0]), (SPARSE, [-1.0, -2.0, -3.0])]
)
def test_targets_of_a_prompt_have_logprobs_in_their_layout(
    targets: dict[str, Any], logprobs: list[float]
) -> None:
    sample_request = parse_sample(body(tokens=(5, 6, 7), target_prompt_logprobs=targets), INFO)
    assert sample_request.generation.prompt_scoring == PromptScoring([[7], [8, 9]])
    assert sample_request.generation.prompt_logprobs == 0
    scores = [PlaceScores((-1.0,)), PlaceScores((-2.0, -3.0))]
    result = collect(scored_prompt(scores), sample_request.options)
    assert isinstance(result, SampleResult)
    assert to_json(result)["target_prompt_logprobs"] == targets | {"data": logprobs, "dtype": "float32"}
    assert "prompt_logprobs" not in to_json(result)


def test_drawn_tokens_have_a_row_for_each_place() -> None:
    sample_request = parse_sample(body(tokens=(5, 6, 7), prompt_alt_tokens_k=2), INFO)
    assert sample_request.generation.prompt_scoring == PromptScoring(num_draws=2)
    scores = [PlaceScores(draws=((8, -0.5), (9, -1.5))), PlaceScores(draws=((7, -2.5), (7, -2.5)))]
    result = collect(scored_prompt(scores), sample_request.options)
    assert isinstance(result, SampleResult)
    assert to_json(result)["prompt_alt_tokens"] == {
        "tokens": {"data": [8, 9, 7, 7], "dtype": "int64", "shape": [2, 2]},
        "logprobs": {"data": [-0.5, -1.5, -2.5, -2.5], "dtype": "float32", "shape": [2, 2]},
    }


def scored_prompt(scores: list[PlaceScores]) -> Script:
    """A sample behind three tokens, two of which have scores of other tokens."""
    first, *others = prompt_tokens()
    scored = [replace(token, place=place) for token, place in zip(others, scores, strict=True)]
    return [
        Started(0, 3, 0, (5, 6, 7), (first, *scored)),
        Token(0, 7, "", -0.5),
        Finished(0, "length", num_tokens=1),
    ]


@pytest.mark.parametrize(
    "changes",
    [{"dtype": "float32"}, {"shape": [4]}, {"shape": [4, 1]}, {"shape": [3, 2]}, {"data": [7, 8, 9]}],
)
def test_targets_that_are_not_a_row_a_place_are_refused(changes: dict[str, Any]) -> None:
    with pytest.raises(BadRequest, match="target_prompt_logprobs"):
        parse_sample(body(tokens=(5, 6, 7), target_prompt_logprobs=TARGETS | changes), INFO)


def test_an_error_is_the_outcome_once() -> None:
    error = Unavailable("stopping")
    script: Script = [Started(0, 3, 0), Token(0, 7, "", -0.5), error]
    assert collect(script, SampleOptions()) is error
