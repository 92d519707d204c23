"""A server in front knows the prompts that its members got from others."""

import asyncio
from typing import Any

import pytest

from inference.prefix_blocks import block_hashes
from inference.remote.detect import Detected
from inference.remote.members.member import Member
from inference.remote.members.member_load import Prompt
from inference.remote.members.prefix_events import ask_prompts
from inference.remote.open_member import open_member
from settings.model_list import parse_entry
from settings.remote_model import RemoteModel
from tests.remote.fake_upstream import FakeUpstream, document

HASHES = block_hashes(b"a" * 1024)
PROMPT = Prompt(1024, HASHES)


@pytest.fixture
def member(upstream: FakeUpstream) -> Member:
    model = parse_entry(1, {"base_model": "m", "inference_server": f"hearth:{upstream.url}", "key": "secret"})
    assert isinstance(model, RemoteModel)
    return open_member(model, Detected("hearth", ("m",)))[0]


def ask(member: Member, after: int, loop: asyncio.AbstractEventLoop) -> int:
    async def run() -> int:
        try:
            return await ask_prompts(member, after)
        finally:
            await member.client.close()

    return asyncio.run_coroutine_threadsafe(run(), loop).result(60)


def test_a_prompt_of_another_server_in_front_is_expected_to_be_cached(
    member: Member, upstream: FakeUpstream, loop: asyncio.AbstractEventLoop
) -> None:
    before = member.load.expected_wait(PROMPT)
    upstream.reply = document({"last": 7, "prompts": [HASHES]})
    assert ask(member, 6, loop) == 7
    (sent,) = upstream.sent
    assert (sent.path, sent.headers["authorization"]) == ("/v1/prefix_events?after=6", "Bearer secret")
    assert member.load.expected_wait(PROMPT) < before / 10


@pytest.mark.parametrize(
    "reply",
    [
        document({"error": "no such route"}, 404),
        document([]),
        document({"last": "7", "prompts": []}),
        document({"last": 7, "prompts": ["abc"]}),
        document({"last": 7, "prompts": [["a"]]}),
    ],
)
def test_a_server_without_events_keeps_the_last_number(
    reply: Any, member: Member, upstream: FakeUpstream, loop: asyncio.AbstractEventLoop
) -> None:
    upstream.reply = reply
    assert ask(member, 3, loop) == 3
