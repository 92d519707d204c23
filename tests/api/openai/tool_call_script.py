"""The events of an answer with two tool calls."""

from inference.events import CallDelta, Finished, Started, Token
from tests.fakes.fake_backend import Script

CALL: Script = [
    Started(0, prompt_tokens=9, cached_tokens=0, prompt_token_ids=(1, 2)),
    Token(0, 7, ""),
    CallDelta(0, 0, "call_12", "get_weather", "", done=False),
    CallDelta(0, 0, "call_12", "get_weather", '{"city": ', done=False),
    CallDelta(0, 0, "call_12", "get_weather", '"Paris"}', done=True),
    CallDelta(0, 1, "call_34", "get_time", '{"at": 1}', done=True),
    Finished(0, "stop", num_tokens=8),
]
