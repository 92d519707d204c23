"""h2oGPT's upstreams behind gradio 3, 4 and 6, by the bytes that they send."""

import ast
import asyncio
import json
import tracemalloc
from typing import Any
from urllib.parse import urlencode

import pytest

from inference.backend import Backend
from inference.errors import BadRequest, NotImplementedHere, ServerError, Unavailable
from inference.events import Finished, Token
from inference.remote.detect import Detected
from inference.remote.open_member import open_member
from inference.remote.upstreams.gradio.functions import GradioFunctions, read_functions, read_models
from inference.sampling import Sampling
from inference.types import GenerationRequest, Message
from settings.model_list import parse_entry
from settings.remote_model import RemoteModel
from tests.remote.conftest import CHAT, OpenModel
from tests.remote.fake_upstream import FakeUpstream, Reply, Sent, Step, document, event, wait_until

FUNCTIONS = GradioFunctions("/gradio_api", num_states=5, has_model_names=True)


def update(text: str, name: str = "generating", **fields: Any) -> bytes:
    result = {"response": text, "error": "", "sources": [], "save_dict": {}} | fields
    return f"event: {name}\n".encode() + event([str(result)])


def complete(text: str, num_tokens: int = 2) -> bytes:
    counts = {"num_prompt_tokens": 7, "ntokens": num_tokens}
    return update(text, "complete", save_dict={"extra_dict": counts})


def serve(upstream: FakeUpstream, *steps: Step) -> None:
    """A call gets the id of its event, and its event these steps."""
    upstream.reply = lambda sent: document({"event_id": "ab12"}) if sent.method == "POST" else Reply([*steps])


def answer_of(open_upstream: OpenModel, prompt: Any = CHAT, **options: Any) -> tuple[str, Finished]:
    backend = open_upstream("gradio", functions=FUNCTIONS, key="sesame")
    events = list(backend.generate(GenerationRequest(prompt, **options)))
    end = events[-1]
    assert isinstance(end, Finished)
    return "".join(each.text for each in events if isinstance(each, Token | Finished)), end


def arguments_of(upstream: FakeUpstream) -> dict[str, Any]:
    *states, text = upstream.bodies[-1]["data"]
    assert states == [None] * 5, "gradio 4 wants a null for each state"
    arguments: dict[str, Any] = ast.literal_eval(text)
    return arguments


def test_an_answer_is_what_each_event_has_more(upstream: FakeUpstream, open_upstream: OpenModel) -> None:
    heartbeat = b"event: heartbeat\ndata: null\n\n"
    serve(upstream, update("The"), heartbeat, update("The capital"), complete("The capital"))
    text, end = answer_of(open_upstream)
    assert (text, end) == ("The capital", Finished(0, "stop", num_tokens=2, prompt_tokens=7))
    assert [each.path.removeprefix("/v1") for each in upstream.sent] == [
        "/gradio_api/call/submit_nochat_api",
        "/gradio_api/call/submit_nochat_api/ab12",
    ]


def test_gradio_3_answers_whole(upstream: FakeUpstream, open_upstream: OpenModel) -> None:
    plain = {"api_name": "submit_nochat_plain_api", "inputs": [1]}
    queued = {"api_name": "submit_nochat_api", "inputs": [1, 2, 3, 4, 5, 6]}
    functions = functions_of({"version": "3.50.2", "dependencies": [queued, plain]})
    result = {"response": "The capital is", "error": "", "save_dict": {"extra_dict": {"ntokens": 3}}}
    upstream.reply = document({"data": [str(result)], "is_generating": False, "duration": 0.3})
    *_, end = events = list(
        open_upstream("gradio", functions=functions).generate(GenerationRequest(CHAT, stop=(" is",)))
    )
    assert [each.text for each in events if isinstance(each, Token)] == ["The capital"]
    assert isinstance(end, Finished) and (end.finish_reason, end.stop) == ("stop", " is")
    (sent,) = upstream.sent
    (arguments,) = sent.body["data"]
    assert sent.path.endswith("/run/submit_nochat_plain_api") and "'stream_output': False" in arguments
    assert functions_of({"version": "3.50.2", "dependencies": [queued]}) is None


def test_the_queue_of_gradio_3_has_the_number_of_its_function() -> None:
    queued = {"api_name": "submit_nochat_api", "inputs": [1, 2, 3, 4, 5, 6]}
    plain = {"api_name": "submit_nochat_plain_api", "inputs": [1]}
    config = {"version": "3.50.2", "dependencies": [{}, plain, queued], "enable_queue": True}
    functions = functions_of(config)
    assert functions == GradioFunctions("", 5, has_model_names=False, fn_index=2)
    config |= {"dependencies": [{}, plain, queued | {"queue": False}]}
    assert functions_of(config) == GradioFunctions("", 0, has_model_names=False, is_streamed=False)


def test_a_conversation_is_sent_as_turns(upstream: FakeUpstream, open_upstream: OpenModel) -> None:
    roles = ("system", "user", "assistant", "user")
    serve(upstream, complete("yes"))
    answer_of(open_upstream, tuple(Message(role, f"{role} it's") for role in roles), max_tokens=5)
    arguments = arguments_of(upstream)
    expected = {
        "instruction_nochat": "user it's",
        "chat_conversation": [("user it's", "assistant it's")],
        "system_prompt": "system it's",
        "prompt_type": "",
        "visible_models": "up/model",
        "h2ogpt_key": "sesame",
        "max_new_tokens": 5,
    }
    assert expected.items() <= arguments.items()


@pytest.mark.parametrize(
    ("sampling", "arguments"),
    [
        (Sampling(greedy=True), {"do_sample": False, "temperature": 0.0, "top_k": 1, "seed": 0}),
        (Sampling(temperature=0.5, top_k=9, seed=3), {"do_sample": True, "top_k": 9, "seed": 3}),
        (Sampling(), {"do_sample": True, "temperature": 1.0, "top_p": 1.0, "top_k": 100}),
    ],
)
def test_the_sampling_of_a_text_becomes_arguments(
    sampling: Sampling, arguments: dict[str, Any], upstream: FakeUpstream, open_upstream: OpenModel
) -> None:
    serve(upstream, complete("yes"))
    answer_of(open_upstream, "The capital", sampling=sampling)
    sent = arguments_of(upstream)
    assert sent["prompt_type"] == "plain" and sent["instruction_nochat"] == "The capital"
    assert arguments.items() <= sent.items()


def test_a_stop_string_ends_the_answer_at_the_upstream(
    upstream: FakeUpstream, open_upstream: OpenModel
) -> None:
    serve(upstream, update("one E"), update("one END two"), "wait")
    text, end = answer_of(open_upstream, stop=("END",))
    assert (text, end.finish_reason, end.stop) == ("one ", "stop", "END")
    wait_until(lambda: upstream.sent[-1].cancelled_at > 0)


def test_as_many_tokens_as_were_allowed_are_a_cut_answer(
    upstream: FakeUpstream, open_upstream: OpenModel
) -> None:
    serve(upstream, complete("a b c", num_tokens=3))
    assert answer_of(open_upstream, max_tokens=3)[1].finish_reason == "length"


@pytest.mark.parametrize(
    ("steps", "message"),
    [
        ([update("The"), update("A capital")], "text changed"),
        ([update("The")], "without a finish reason"),
        ([b"event: error\ndata: null\n\n"], "ended with an error"),
        ([update("", error="no memory")], "no memory"),
        ([update("", error="Invalid Access Key")], "access key is wrong"),
        ([b"event: generating\n" + event(["__import__('os')"])], "no answer of h2oGPT"),
        ([b"event: generating\n" + event(["[" * 5000])], "no answer of h2oGPT"),
        ([b"event: complete\n" + event([])], "no answer of h2oGPT"),
        ([update("", "complete", response=5)], "no text"),
    ],
)
def test_a_broken_answer_is_never_a_whole_one(
    steps: list[Step], message: str, upstream: FakeUpstream, open_upstream: OpenModel
) -> None:
    serve(upstream, *steps)
    with pytest.raises(Unavailable, match=message):
        answer_of(open_upstream)


@pytest.mark.parametrize("response", [{}, {"event_id": 5}, {"event_id": "../config"}, []])
def test_an_event_id_names_no_other_path(
    response: Any, upstream: FakeUpstream, open_upstream: OpenModel
) -> None:
    upstream.reply = document(response)
    with pytest.raises(Unavailable, match="event_id"):
        answer_of(open_upstream)
    assert {each.method for each in upstream.sent} == {"POST"}


@pytest.mark.parametrize(
    ("options", "field"),
    [
        ({"logprobs": 0}, "logprobs"),
        ({"sampling": Sampling(top_k=101)}, "top_k"),
        ({"sampling": Sampling(seed=0)}, "seed"),
        ({"prompt": (1, 2)}, "prompt"),
        ({"prompt": (*CHAT, *CHAT)}, "messages"),
    ],
)
def test_what_h2ogpt_lacks_is_refused(
    options: dict[str, Any], field: str, upstream: FakeUpstream, open_upstream: OpenModel
) -> None:
    with pytest.raises(BadRequest, match="the h2oGPT server behind up/model") as refusal:
        answer_of(open_upstream, **options)
    assert refusal.value.field == field and not upstream.sent
    with pytest.raises(NotImplementedHere):
        open_upstream("gradio", functions=FUNCTIONS).embed(["text"])


def test_a_server_that_was_not_reached_at_the_start_is_refused(open_upstream: OpenModel) -> None:
    with pytest.raises(ServerError, match="must be running"):
        open_upstream("gradio")
    model = parse_entry(1, {"base_model": "m", "inference_server": "gradio:127.0.0.1:9:ann:wrong"})
    assert isinstance(model, RemoteModel)
    with pytest.raises(ServerError, match="the server of m does not respond: it refuses the login"):
        open_member(model, Detected("gradio", problem="it refuses the login"))


def functions_of(config: object) -> GradioFunctions | None:
    return read_functions(json.dumps(config).encode())


def test_gradio_4_and_6_describe_their_functions() -> None:
    dependency = {"api_name": "submit_nochat_api", "inputs": [1, 2, 3, 4, 5, 6], "queue": True}
    assert functions_of({"dependencies": [dependency]}) == GradioFunctions("", 5, has_model_names=False)
    others = [{"api_name": "model_names"}, {"api_name": False, "inputs": [{"id": 1}]}, {}]
    config = {"api_prefix": "/gradio_api", "dependencies": [*others, dependency]}
    assert functions_of(config) == FUNCTIONS
    assert functions_of({"dependencies": [{"api_name": "predict"}]}) is None
    assert functions_of(config | {"api_prefix": "//elsewhere"}) is None
    for wrong in ({}, [], {"dependencies": [5]}, {"dependencies": [dependency | {"inputs": 5}]}):
        with pytest.raises(ValueError):
            functions_of(wrong)
    with pytest.raises(ValueError):
        read_functions(b'{"components":' + b"[" * 100_000)


def test_a_large_page_of_gradio_is_skipped_and_too_many_functions_are_refused() -> None:
    functions = b'[{"api_name":"submit_nochat_api","inputs":[1]}]'
    tracemalloc.start()
    page = b'{"components":[' + b"[]," * 1_000_000 + b'[]],"dependencies":' + functions + b"}"
    before = tracemalloc.get_traced_memory()[1]
    assert read_functions(page) == GradioFunctions("", 0, has_model_names=False)
    assert tracemalloc.get_traced_memory()[1] < before + 1_000_000, "its million lists would take 56 MB"
    tracemalloc.stop()
    with pytest.raises(ValueError, match="too many functions"):
        read_functions(b'{"dependencies":[' + b"{}," * 200_000 + b"{}]}")


def test_the_models_of_h2ogpt_have_names_and_contexts() -> None:
    cards = [{"display_name": "one", "max_seq_len": 4096}, {"display_name": "two", "max_seq_len": "?"}]
    assert read_models({"data": [str(cards)]}) == {"one": 4096, "two": None}
    assert read_models({"data": ["no literal"]}) == {}
    assert read_models({"data": [f"[{'1,' * 100_000}]"]}) == {}, "its tree would take 100 MB"


def test_a_call_carries_the_key_to_its_server_alone(upstream: FakeUpstream, open_upstream: OpenModel) -> None:
    def redirect(sent: Sent) -> Reply:
        return Reply(status=302, headers={"Location": f"http://localhost:{upstream.port}/elsewhere"})

    upstream.reply = redirect
    with pytest.raises(Unavailable, match="redirects"):
        answer_of(open_upstream)
    assert all("/elsewhere" not in each.path for each in upstream.sent)


def test_a_call_that_is_cancelled_while_it_is_posted_ends_at_the_upstream(
    upstream: FakeUpstream, open_upstream: OpenModel, loop: asyncio.AbstractEventLoop
) -> None:
    """h2oGPT would compute an answer whose events nobody has opened."""
    accepted = document({"event_id": "ab12"})
    has_left = asyncio.Event()
    accepted.steps = [has_left, *accepted.steps]
    upstream.reply = lambda sent: accepted if sent.method == "POST" else Reply(["wait"])
    stream = open_upstream("gradio", functions=FUNCTIONS).generate(GenerationRequest(CHAT))
    wait_until(lambda: len(upstream.sent) == 1)
    stream.close()
    loop.call_soon_threadsafe(has_left.set)
    wait_until(lambda: len(upstream.sent) == 2 and upstream.sent[1].cancelled_at > 0)
    assert upstream.sent[1].path.endswith("/ab12")


class GradioWithLogin:
    """A gradio server with a login. num_logins: how often its form was sent."""

    def __init__(self, upstream: FakeUpstream) -> None:
        self.token, self.num_logins, self.password = "t1", 0, "s3cret: x"
        upstream.reply = self.reply

    def reply(self, sent: Sent) -> Reply:
        if sent.path.endswith("/login"):
            self.num_logins += 1
            if sent.body != urlencode({"username": "ann", "password": self.password}).encode():
                return document({"detail": "Incorrect credentials."}, 400)
            return document({"success": True}, **{"Set-Cookie": f"access-token-x={self.token}; HttpOnly"})
        if sent.headers.get("cookie") != f"access-token-x={self.token}":
            return document({"detail": "Not authenticated"}, 401)
        return document({"event_id": "ab12"}) if sent.method == "POST" else Reply([complete("hi")])


def with_login(upstream: FakeUpstream, open_upstream: OpenModel) -> tuple[GradioWithLogin, Backend]:
    gradio = GradioWithLogin(upstream)
    server = f"gradio:{upstream.url}:ann:s3cret: x"
    return gradio, open_upstream("gradio", inference_server=server, functions=FUNCTIONS)


def text_of(backend: Backend) -> str:
    events = list(backend.generate(GenerationRequest(CHAT)))
    return "".join(each.text for each in events if isinstance(each, Token | Finished))


def test_a_server_with_a_login_gets_it_once_and_again_after_a_restart(
    upstream: FakeUpstream, open_upstream: OpenModel
) -> None:
    gradio, backend = with_login(upstream, open_upstream)
    assert [text_of(backend) for _ in range(3)] == ["hi"] * 3 and gradio.num_logins == 1
    assert arguments_of(upstream)["h2ogpt_key"] == "", "a login is no key"
    gradio.token = "t2"
    assert text_of(backend) == "hi" and gradio.num_logins == 2


def test_a_login_that_is_refused_is_not_sent_without_end(
    upstream: FakeUpstream, open_upstream: OpenModel
) -> None:
    gradio, backend = with_login(upstream, open_upstream)
    gradio.password = "another"
    with pytest.raises(Unavailable, match=r"refuses this server \(status 401\)") as failure:
        text_of(backend)
    assert gradio.num_logins == 1 and "s3cret" not in failure.value.message


def test_calls_that_need_a_login_at_the_same_time_log_in_once(
    upstream: FakeUpstream, open_upstream: OpenModel
) -> None:
    gradio, backend = with_login(upstream, open_upstream)
    streams = [backend.generate(GenerationRequest(CHAT)) for _ in range(4)]
    assert all(isinstance(list(stream)[-1], Finished) for stream in streams) and gradio.num_logins == 1
