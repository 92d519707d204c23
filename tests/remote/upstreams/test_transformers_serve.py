"""Upstreams that run `transformers serve`, by the bytes that it sends: what it ignores is refused here."""

from typing import Any

import pytest

from inference.errors import BadRequest
from inference.events import Finished, Token
from inference.sampling import Sampling
from inference.types import Constraint, GenerationRequest
from tests.remote.conftest import CHAT, OpenModel
from tests.remote.fake_upstream import FakeUpstream, Reply, event

ENVELOPE = {"id": "1", "created": 1, "model": "m@main", "object": "chat.completion.chunk"}
USAGE = {"completion_tokens": 6, "prompt_tokens": 21, "total_tokens": 27}


def stream_of(*texts: str) -> Reply:
    """A stream of `transformers serve`: the counts come with the end, and no [DONE]."""
    deltas: list[dict[str, Any]] = [{"role": "assistant"}, *({"content": text} for text in texts)]
    chunks = [ENVELOPE | {"choices": [{"delta": delta, "index": 0}]} for delta in deltas]
    end = {"choices": [{"delta": {}, "index": 0, "finish_reason": "stop"}], "usage": USAGE}
    return Reply([*map(event, chunks), event(ENVELOPE | end)])


def texts_of(open_upstream: OpenModel, **options: Any) -> tuple[str, Finished]:
    events = list(
        open_upstream("openai_chat:None", detected="transformers").generate(
            GenerationRequest(CHAT, **options)
        )
    )
    end = events[-1]
    assert isinstance(end, Finished)
    return "".join(each.text for each in events if isinstance(each, Token | Finished)), end


def test_an_answer_has_its_text_and_counts(upstream: FakeUpstream, open_upstream: OpenModel) -> None:
    upstream.reply = stream_of("The", " capital")
    text, end = texts_of(open_upstream)
    assert (text, end.finish_reason, end.num_tokens, end.prompt_tokens) == ("The capital", "stop", 6, 21)


@pytest.mark.parametrize(
    ("is_included", "text"), [(False, "The capital of "), (True, "The capital of France")]
)
def test_the_stop_string_that_it_leaves_in_the_text_is_cut_off(
    is_included: bool, text: str, upstream: FakeUpstream, open_upstream: OpenModel
) -> None:
    upstream.reply = stream_of("The", " capital", " of", " ", "Fr", "ance")
    cut_text, end = texts_of(open_upstream, stop=("France",), include_stop_str_in_output=is_included)
    assert upstream.bodies[-1]["stop"] == ["France"]
    assert (cut_text, end.stop) == (text, "France")


def test_the_start_of_a_stop_string_that_does_not_come_is_text(
    upstream: FakeUpstream, open_upstream: OpenModel
) -> None:
    upstream.reply = stream_of("of ", "Fr")
    assert texts_of(open_upstream, stop=("France",))[0] == "of Fr"


@pytest.mark.parametrize(
    ("options", "name"),
    [
        ({"n": 2}, "n"),
        ({"logprobs": 0}, "logprobs"),
        ({"constraint": Constraint("json", None)}, "response_format"),
        ({"sampling": Sampling(frequency_penalty=0.5)}, "frequency_penalty"),
        ({"sampling": Sampling(presence_penalty=0.5)}, "presence_penalty"),
    ],
)
def test_an_option_that_it_ignores_is_refused(
    options: dict[str, Any], name: str, upstream: FakeUpstream, open_upstream: OpenModel
) -> None:
    with pytest.raises(BadRequest, match="transformers server behind up/model") as refusal:
        texts_of(open_upstream, **options)
    assert refusal.value.field == name and not upstream.bodies


def test_logprobs_that_only_the_form_of_an_answer_has_are_left_out(
    upstream: FakeUpstream, open_upstream: OpenModel
) -> None:
    upstream.reply = stream_of("Paris")
    text, _ = texts_of(open_upstream, logprobs=0, logprobs_are_optional=True)
    assert text == "Paris" and "logprobs" not in upstream.bodies[-1]
