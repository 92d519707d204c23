"""Servers of one model whose settings change the answers must agree in them."""

import asyncio
from itertools import count
from typing import Any

import pytest
from prometheus_client import CollectorRegistry

from inference.metrics.upstream import UpstreamMetrics
from inference.remote.answer_settings import answer_settings, disagreement
from inference.remote.detect import Detected
from inference.remote.members.agreement import disagreement_of
from inference.remote.open import make_opener, open_model
from inference.remote.open_member import CannotOpen, open_member
from settings.model_list import parse_entry
from settings.remote_model import RemoteModel
from tests.remote.fake_upstream import FakeUpstream, Reply, Sent, document

SETTINGS = {"architecture": "Llama", "dtype": "bfloat16", "quantize": "none", "kv_dtype": "auto"}
REASON = r"KV_DTYPE \(kv_dtype\) is 'int8' there, and 'auto' at another server .* start them with the same"


def described(**changes: str) -> Detected:
    return Detected("hearth", ("m",), details=SETTINGS | changes)


def two_servers(first: Detected, second: Detected) -> None:
    model = parse_entry(1, {"base_model": "m", "members": ["hearth:http://a:1", "hearth:http://b:1"]})
    assert isinstance(model, RemoteModel)
    open_model(model, [first, second], UpstreamMetrics(CollectorRegistry()))


def one_server(url: str) -> RemoteModel:
    model = parse_entry(1, {"base_model": "m", "inference_server": f"hearth:{url}"})
    assert isinstance(model, RemoteModel)
    return model


def hearth(upstream: FakeUpstream, **settings: str) -> None:
    """Let the upstream describe itself as a Hearth."""
    card = {"id": "m", "metadata": {"context": 64, **SETTINGS, **settings}}

    def reply(sent: Sent) -> Reply:
        return document({"data": [card]} if sent.path == "/v1/models" else {"name": "hearth"})

    upstream.reply = reply


def test_a_member_that_would_answer_differently_is_refused() -> None:
    with pytest.raises(CannotOpen, match=f"m-2: it would answer differently: {REASON}"):
        two_servers(described(), described(kv_dtype="int8"))


def test_a_member_with_other_weights_is_refused() -> None:
    """A fine-tuned model, or another revision, has the same architecture."""
    with pytest.raises(CannotOpen, match=r"MODEL_REVISION \(weights\) is 'b' there, and 'a' at another"):
        two_servers(described(weights="a"), described(weights="b"))
    two_servers(described(weights="a"), described())  # an earlier release does not say


@pytest.mark.parametrize(
    "second", [described(), Detected("vllm", ("m",)), Detected(problem="it does not respond")]
)
def test_equal_settings_and_unknown_ones_are_accepted(second: Detected) -> None:
    two_servers(described(), second)


@pytest.mark.parametrize("metadata", [None, 5, {"dtype": 5}, {"device": "cpu"}])
def test_metadata_of_another_form_says_nothing(metadata: Any) -> None:
    assert answer_settings(metadata) == {}
    assert not disagreement({}, [SETTINGS])


@pytest.mark.parametrize("changes", [{}, {"kv_dtype": "int8"}])
def test_a_server_that_joins_later_must_agree(
    changes: dict[str, str], upstream: FakeUpstream, loop: asyncio.AbstractEventLoop
) -> None:
    hearth(upstream, **changes)
    model = one_server(upstream.url)
    first, _ = open_member(model, described())
    member = asyncio.run_coroutine_threadsafe(
        make_opener(model, count(2), [first])(model.server), loop
    ).result(60)
    assert (member is None) == bool(changes)


def test_a_server_that_returns_with_other_settings_goes_on_resting() -> None:
    members = [open_member(one_server(f"http://{host}:1"), described())[0] for host in "ab"]
    returned = described(kv_dtype="int8")
    assert "would answer differently" in disagreement_of(members[1], returned, members)
    assert not disagreement_of(members[1], described(), members)


def test_a_refused_server_keeps_no_other_away() -> None:
    members = [open_member(one_server(f"http://{host}:1"), described())[0] for host in "ab"]
    members[1].breaker.stay_down(0.0, "it restarts")
    assert disagreement_of(members[1], described(kv_dtype="int8"), members)
    assert not disagreement_of(members[0], described(), members)
