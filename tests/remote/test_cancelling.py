"""A client that leaves is gone at every kind of upstream, however far the answer is."""

import time
from collections.abc import Mapping

import pytest

from inference.remote.upstreams.gradio_functions import GradioFunctions
from inference.types import GenerationRequest
from tests.remote.conftest import CHAT, OpenModel
from tests.remote.fake_upstream import FakeUpstream, Reply, Sent, document, event, wait_until
from tests.remote.openai_chunks import chat_chunk

LIMIT_S = 0.1
BUSY = 5  # times slower than a machine that is idle
FUNCTIONS = GradioFunctions("/gradio_api", num_states=0, has_model_names=True)
CHUNKS: Mapping[str, bytes] = {
    "vllm_chat": chat_chunk({"content": "a"}),
    "hearth": chat_chunk({"content": "a"}),
    "tgi": chat_chunk({"content": "a"}),
    "llamastack": event({"event": {"event_type": "progress", "delta": {"type": "text", "text": "a"}}}),
    "gradio": b"event: generating\n" + event([str({"response": "a", "error": "", "save_dict": {}})]),
}
STAGES = ("before the head", "before an event", "after an event")


def reply_at(stage: str, kind: str) -> Reply:
    if stage == "before the head":
        return Reply(["wait"], is_raw=True)
    return Reply([CHUNKS[kind], "wait"] if stage == "after an event" else ["wait"])


@pytest.mark.parametrize("stage", STAGES)
@pytest.mark.parametrize("kind", CHUNKS)
def test_a_client_that_leaves_is_noticed_upstream_at_once(
    kind: str, stage: str, upstream: FakeUpstream, open_upstream: OpenModel
) -> None:
    def reply(sent: Sent) -> Reply:
        is_call = kind == "gradio" and sent.method == "POST"
        return document({"event_id": "ab12"}) if is_call else reply_at(stage, kind)

    upstream.reply = reply
    functions = FUNCTIONS if kind == "gradio" else None
    stream = open_upstream(kind, functions=functions).generate(GenerationRequest(CHAT))
    if stage == "after an event":
        next(iter(stream))
    num_requests = 2 if kind == "gradio" else 1
    wait_until(lambda: len(upstream.sent) == num_requests)
    closed_at = time.monotonic()
    stream.close()
    wait_until(lambda: upstream.sent[-1].cancelled_at > 0)
    assert 0 < upstream.sent[-1].cancelled_at - closed_at < LIMIT_S * BUSY
