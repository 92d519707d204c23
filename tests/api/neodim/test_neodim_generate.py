"""POST /generate as clients of the Neodim Server use it: requests, replies, refusals and limits."""

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from api.neodim import gpu_report
from api.neodim.gpu_report import MIN_INTERVAL_S, GpuSampler
from api.neodim.prompt import PlainTokenizer
from api.neodim.validation import VERSION
from inference.backend_info import BackendLoad, Device
from inference.errors import Overloaded, Unavailable
from inference.events import Finished
from inference.sampling import Sampling
from inference.types import GenerationRequest
from inference.validation import check_request
from tests.api.neodim.chat_body import CHAT
from tests.api.neodim.conftest import Ask, body, client, lines
from tests.api.neodim.tokenizers import ScriptedBackend
from tests.fakes.fake_backend import FakeBackend, say
from tests.fakes.stepped_clock import SteppedClock


def backend(*scripts: list[str], **options: Any) -> ScriptedBackend:
    tokens = [" I", " saw", " a", " cat", ",", " but", " it", " ran", " away", "."]
    return ScriptedBackend("words", *(scripts or [tokens]), **options)


def sampling_of(**fields: Any) -> Sampling:
    """The Sampling that a body is parsed into."""
    server = backend()
    response = client(server).post("/generate", json=body(**fields))
    assert response.status_code == 200, response.text
    return server.requests[0].sampling


def test_a_default_seed_counts_for_requests_without_one() -> None:
    server = backend()
    seeded = client(server, default_seed=5)
    reports = [seeded.post("/generate", json=body(**fields)).json for fields in ({}, {"seed": 7})]
    assert [report["seed"] for report in reports] == [5, 7]
    assert [request.sampling.seed for request in server.requests] == [5, 7]


@pytest.mark.parametrize(
    ("fields", "parameters"),
    [
        ({}, {}),
        ({"temperature": 0, "top_k": 0, "top_p": 0, "typical": 0, "tfs": 0, "top_a": 0}, {}),
        ({"penalty_alpha": 0, "no_repeat_ngram_size": 0, "repetition_penalty": 0}, {}),
        ({"temperature": 0.5, "top_k": 1}, {"temperature": 0.5, "top_k": 1}),
        ({"top_p": 0.9, "typical": 0.2}, {"top_p": 0.9, "typical_p": 0.2}),
        ({"top_p": 1.5, "typical": 1}, {}),
        ({"tfs": 1, "top_a": 1}, {"tfs": 1.0, "top_a": 1.0}),
        ({"penalty_alpha": 0.6, "top_k": 4}, {"penalty_alpha": 0.6, "top_k": 4}),
        ({"no_repeat_ngram_size": 3}, {"no_repeat_ngram_size": 3}),
        ({"temperature": "0.5", "top_k": "3", "tfs": "1"}, {"temperature": 0.5, "top_k": 3, "tfs": 1.0}),
        (
            {"warpers_order": ["tfs", "*", "temperature"]},
            {"warper_order": ("tfs", "repetition", "top_k", "top_p", "typical_p", "top_a", "temperature")},
        ),
        (
            {"warpers_order": ["typical"]},
            {"warper_order": ("typical_p", "repetition", "temperature", "top_k", "top_p", "tfs", "top_a")},
        ),
    ],
)
def test_each_field_sets_its_parameter_and_0_sets_nothing(fields: dict, parameters: dict) -> None:
    assert sampling_of(**fields, seed=1) == Sampling(**parameters, seed=1)


@pytest.mark.parametrize("penalty", [1e-6, 1000, 1e9])
def test_the_repetition_penalty_has_no_narrow_bounds(penalty: float) -> None:
    sampling = sampling_of(repetition_penalty=penalty, repetition_penalty_slope=penalty)
    assert sampling.penalty_window is not None
    assert (sampling.penalty_window.penalty, sampling.penalty_window.slope) == (penalty, penalty)
    check_request(GenerationRequest("a", sampling=sampling, max_tokens=1), vocab=10_000)


def test_stop_tokens_are_forbidden_unless_it_can_stop_early() -> None:
    server = backend()
    client(server).post("/generate", json=body())
    client(server).post("/generate", json=body(can_stop_early=True))
    assert [request.min_tokens for request in server.requests] == [8, 1]
    assert not any(request.ignore_eos for request in server.requests)


def test_words_are_banned_as_token_sequences_and_at_the_start_token_by_token() -> None:
    server = backend()
    fields = {"words_blacklist": ["a cat"], "words_blacklist_at_start": ["\n", "go on"]}
    client(server).post("/generate", json=body(**fields, words_whitelist=["so on"]))
    sampling = server.requests[0].sampling
    spelled = PlainTokenizer(server).decode
    assert [spelled(run) for run in sampling.bad_words_ids] == ["a cat", " a cat"]
    assert {spelled([id]) for id in sampling.banned_first} == {"\n", " ", "go", " go", " on"}
    assert {spelled([id]) for id in sampling.allowed_token_ids or ()} == {"so", " so", " on"}


def test_the_models_context_limits_a_larger_total(ask: Ask) -> None:
    report = ask(backend(context=12), max_total_tokens=1000)
    assert (report["output_tokens_count"], report["used_prompt"]) == (12, " a nice chat.")


@pytest.mark.parametrize("kind", ["application/x-www-form-urlencoded", "text/plain", "image/png", ""])
def test_the_content_type_is_ignored(kind: str) -> None:
    response = client(backend()).post("/generate", data=json.dumps(body()), content_type=kind)
    assert response.status_code == 200


def test_a_chat_client_is_served_with_all_its_fields() -> None:
    scripts = [
        [" Yes", ".", " No", "!", " A", " B", " C", " D"],
        [" It", " is", " so", "\n", "x", "y", "z", "!"],
    ]
    report = client(backend(*scripts)).post("/generate", json=CHAT).get_json()
    first, second = report["sequences"]
    assert (first["generated_text"], first["stop_string_match"], first["trimmed_tail"]) == (
        " Yes",
        ".",
        " No!",
    )
    assert (second["generated_text"], second["stop_string"]) == (" It is so", r"\n")
    assert report["gpus"] == []


def test_null_or_unknown_fields_are_ignored(ask: Ask) -> None:
    optional = {name: None for name in CHAT if name not in ("generated_tokens_count", "max_total_tokens")}
    plain = ask(backend(), seed=1)
    assert ask(backend(), **optional | {"prompt": "We had a nice chat.", "hello": 5}, seed=1) == plain


def test_a_stream_sends_each_token_and_then_the_whole_report(ask: Ask) -> None:
    scripts = [[" It", " was", ".", " So", " on"], [" The", " sky", " was", " dull", "!"]]
    fields = {"stop_strings": [".", "!"], "sequences_count": 2, "seed": 3}
    *tokens, report = lines(backend(*scripts), **fields)
    assert report == ask(backend(*scripts), **fields)
    assert [(line["text"], line["stopped"]) for line in tokens if line["index"] == 0] == [
        (" It", False),
        (" was", False),
        (".", True),
        (" So", True),
        (" on", True),
    ]


def test_a_stream_is_newline_delimited_json() -> None:
    response = client(backend()).post("/generate", json=body(stream=True))
    assert response.mimetype == "application/x-ndjson"
    assert response.headers["X-Accel-Buffering"] == "no"


def test_hanging_up_cancels_the_rest() -> None:
    server = backend()
    response = client(server).post("/generate", json=body(stream=True), buffered=False)
    next(response.iter_encoded())
    assert server.open_streams
    response.close()
    assert not server.open_streams


def test_the_rest_is_cancelled_once_all_have_stopped(ask: Ask) -> None:
    server = backend()
    ask(server, stop_strings=["cat"])
    assert not server.open_streams
    assert any(server.streams[0].script_steps)


@pytest.mark.parametrize("stop_strings", [None, ["."]])
def test_a_deadline_is_reported_unless_every_sequence_had_stopped(stop_strings: list[str] | None) -> None:
    server = FakeBackend([*say("One", ".", " Two")[:-1], Finished(0, "deadline", num_tokens=3)])
    report = client(server).post("/generate", json=body(stop_strings=stop_strings)).json
    assert report.get("stop_reason") == (None if stop_strings else "timeout")


@pytest.mark.parametrize("streamed", [False, True])
def test_without_tokens_to_generate_only_the_input_is_counted(streamed: bool) -> None:
    server = backend()
    fields = body(generated_tokens_count=0, sequences_count=2, repetition_penalty=2, stream=streamed)
    report = json.loads(client(server).post("/generate", json=fields).text)
    assert server.requests == []
    assert (report["output_tokens_count"], report["used_input_tokens_count"]) == (6, 6)
    assert [sequence["generated_text"] for sequence in report["sequences"]] == ["", ""]
    assert report["repetition_penalty_text_at_start"] == ""
    assert report["used_repetition_penalty_range_at_start"] == 0


def test_gpus_are_reported_from_the_first_sample_to_the_last() -> None:
    class LoadedBackend(ScriptedBackend):
        used = 0

        def current_load(self) -> BackendLoad:
            self.used += 10
            return BackendLoad(devices=(Device("A GPU", 100, 100 - self.used, self.used, self.used - 1),))

    server = LoadedBackend("words", [" I", " saw"])
    (gpu,) = client(server).post("/generate", json=body()).get_json()["gpus"]
    last = server.used
    assert gpu == {
        "name": "A GPU",
        "memory_total": 100,
        "memory_reserved_start": 10,
        "memory_allocated_start": 9,
        "memory_free_start": 90,
        "memory_reserved_end": last,
        "memory_allocated_end": last - 1,
        "memory_free_end": 100 - last,
        "memory_reserved_min": 10,
        "memory_allocated_min": 9,
        "memory_free_min": 100 - last,
        "memory_reserved_max": last,
        "memory_allocated_max": last - 1,
        "memory_free_max": 90,
    }


def test_gpus_are_not_sampled_at_every_token(monkeypatch: pytest.MonkeyPatch) -> None:
    reads, clock = [], SteppedClock()
    monkeypatch.setattr(gpu_report, "time", clock)
    sampler = GpuSampler(lambda: reads.append(1) or (Device("A GPU", 100, 50, 50, 50),))
    for _ in range(9):
        clock.now += MIN_INTERVAL_S / 8
        sampler.sample()
    assert len(reads) == 2
    sampler.sample(last=True)
    assert len(reads) == 3


def test_the_input_and_the_output_are_reported_as_they_were_used(ask: Ask) -> None:
    report = ask(backend(), preamble="Hm. ", max_total_tokens=13, truncate_prompt_until=[" "])
    assert report["preamble"] == "Hm. "
    assert report["used_prompt"] == "chat."
    assert report["sequences"][0]["output_text"] == "Hm. chat. I saw a cat, but it ran"
    assert report["original_input_tokens_count"] == 9
    assert report["output_tokens_count"] == 3 + 2 + 8


CANNOT_FIT = "RuntimeError: Cannot fit the prompt in {} tokens while using specified stop_strings"
REFUSED: list[tuple[dict[str, Any], int, str]] = [
    ({"generated_tokens_count": -1}, 400, "ValueError: generated_tokens_count must be between 0 and "),
    ({"generated_tokens_count": "many"}, 400, "ValueError: generated_tokens_count must be `int`, got `str`"),
    ({"generated_tokens_count": None}, 400, "ValueError: generated_tokens_count must be `int`, got `null`"),
    ({"temperature": -1}, 400, "ValueError: temperature must be between 0 and 100, got -1.0"),
    ({"temperature": "nan"}, 400, "ValueError: temperature must be between 0 and 100, got nan"),
    ({"top_k": -3}, 400, "ValueError: top_k must be between 0 and 2147483647, got -3"),
    ({"top_p": -0.5}, 400, "ValueError: top_p must be at least 0, got -0.5"),
    ({"tfs": 1.5}, 400, "ValueError: tfs must be between 0 and 1, got 1.5"),
    ({"top_a": 2}, 400, "ValueError: top_a must be between 0 and 1, got 2.0"),
    ({"sequences_count": 0}, 400, "ValueError: sequences_count must be between 1 and 64, got 0"),
    ({"sequences_count": 10**12}, 400, "ValueError: sequences_count must be between 1 and 64, got 1"),
    ({"repetition_penalty": -1}, 400, "ValueError: repetition_penalty must be between 0 and 10000000000, "),
    ({"repetition_penalty_range": -1}, 400, "ValueError: repetition_penalty_range must be between 0 and "),
    ({"repetition_penalty_include_generated": "some"}, 400, "ValueError: repetition_penalty_include_gen"),
    ({"penalty_alpha": 0.5, "top_k": 1}, 400, "ValueError: penalty_alpha needs a top_k of at least 2"),
    ({"seed": 2**70}, 400, "ValueError: seed must be between "),
    ({"stop_strings": 5}, 400, "ValueError: stop_strings must be "),
    ({"stop_strings": ["a"] * 65}, 400, "ValueError: stop_strings may hold at most 64 strings, got 65"),
    ({"stop_strings": ["("], "stop_strings_type": "regex"}, 400, "ValueError: stop_strings contain an inv"),
    ({"truncate_prompt_until": ["a"] * 65}, 400, "ValueError: truncate_prompt_until may hold at most 64 str"),
    ({"warpers_order": ["heat"]}, 400, "ValueError: warpers_order may only name repetition_penalty, temp"),
    (
        {"warpers_order": ["tfs", "tfs"]},
        400,
        "ValueError: warpers_order must name each warper at most once, got 'tfs'",
    ),
    ({"words_whitelist": []}, 400, "ValueError: words_whitelist bans every word"),
    ({"words_blacklist": ["a"] * 1001}, 400, "ValueError: words_blacklist may hold at most 1000 words"),
    ({"words_blacklist": ["a" * 201]}, 400, "ValueError: words_blacklist may have at most 200 charact"),
    ({"required_server_version": "new"}, 400, "ValueError: required_server_version must be a version spec"),
    ({"required_server_version": "==" + "1" * 5000}, 400, "ValueError: required_server_version must be"),
    ({"required_server_version": ">=0.1," * 100}, 400, "ValueError: required_server_version must be"),
    ({"required_server_version": ">=9"}, 422, f"RuntimeError: Requested server version: >=9, current server "
     f"version: {VERSION}"),
    ({"prompt": ""}, 422, "RuntimeError: Specify preamble and/or prompt"),
    ({"prompt": None}, 422, "RuntimeError: Specify preamble and/or prompt"),
    ({"max_total_tokens": 4}, 422, CANNOT_FIT.format(-4)),
    ({"max_total_tokens": 8}, 422, CANNOT_FIT.format(0)),
    ({"max_total_tokens": 11, "truncate_prompt_until": ["ZZ"]}, 422, CANNOT_FIT.format(3)),
    ({"generated_tokens_count": 5000, "max_total_tokens": 10**9}, 422, CANNOT_FIT.format(4096 - 5000)),
    ({"preamble": "one two three", "max_total_tokens": 10}, 422, "RuntimeError: Cannot fit the preamble in 2 "
     "tokens (max_total_tokens without generated_tokens_count): it has 3, and is never truncated; shor"),
]  # fmt: skip


@pytest.mark.parametrize(("fields", "status", "error"), REFUSED)
def test_an_invalid_request_is_refused(fields: dict[str, Any], status: int, error: str) -> None:
    server = backend()
    response = client(server).post("/generate", json=body(**fields))
    assert response.status_code == status
    assert list(response.get_json()) == ["error"]
    assert response.get_json()["error"].startswith(error)
    assert server.requests == []


def test_a_body_without_its_total_is_refused_with_the_fields_name() -> None:
    response = client(backend()).post("/generate", json={"prompt": "a", "generated_tokens_count": 8})
    assert (response.status_code, response.get_json()) == (400, {"error": "KeyError: 'max_total_tokens'"})


def test_an_overloaded_server_says_so() -> None:
    server = backend()
    server.error = Overloaded(3)
    response = client(server).post("/generate", json=body())
    assert (response.status_code, response.headers["Retry-After"]) == (429, "3")
    assert response.get_json() == {"error": "Overloaded: the server is busy: try again in 3 s"}


def test_an_error_midway_ends_a_stream_with_an_error_line_and_a_whole_answer_with_its_status() -> None:
    class Breaking(ScriptedBackend):
        def generate(self, request: Any) -> Any:
            stream = super().generate(request)
            stream.script_steps.insert(3, Unavailable("the server is shutting down"))
            return stream

    error = {"error": "Unavailable: the server is shutting down"}
    assert lines(Breaking("words", ["a", "b", "c"]))[-1] == error
    response = client(Breaking("words", ["a", "b", "c"])).post("/generate", json=body())
    assert (response.status_code, response.get_json()) == (503, error)


VALUES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-5, 70),
    st.sampled_from([10**30, -(10**30), 1e300, 0.5, "", "2", "slide", "regex", ">=0.2", "*"]),
    st.text(max_size=4),
    st.lists(st.one_of(st.text(max_size=3), st.integers(), st.sampled_from(["*", "tfs", "(a"])), max_size=3),
    st.dictionaries(st.text(max_size=2), st.integers(), max_size=1),
)

SERVED = client(backend())


@settings(max_examples=80, deadline=None)
@given(st.dictionaries(st.sampled_from([*CHAT, "seed", "stream"]), VALUES, max_size=5))
def test_no_body_causes_a_server_error(fields: dict[str, Any]) -> None:
    response = SERVED.post("/generate", json=body(**fields))
    assert response.status_code in (200, 400, 422)
    if response.status_code != 200:
        assert list(response.get_json()) == ["error"]


def test_pages_of_any_origin_and_files_may_call() -> None:
    for sent in (body(), {"max_total_tokens": 5}):
        response = client(backend()).post("/generate", json=sent, headers={"Origin": "null"})
        assert response.headers["Access-Control-Allow-Origin"] == "null"
    assert "Access-Control-Allow-Origin" not in client(backend()).post("/generate", json=body()).headers


def test_a_cors_preflight_lists_what_a_page_may_send() -> None:
    headers = {
        "Origin": "http://page",
        "Access-Control-Request-Method": "POST",
        "Access-Control-Request-Headers": "content-type, x-mine",
    }
    response = client(backend(), api_keys=("secret",)).options("/generate", headers=headers)
    assert response.status_code == 200
    allowed = {name: value for name, value in response.headers if name.startswith("Access-Control-Allow-")}
    assert allowed == {
        "Access-Control-Allow-Origin": "http://page",
        "Access-Control-Allow-Methods": "POST, OPTIONS",
        "Access-Control-Allow-Headers": "content-type, x-mine",
    }


def test_cors_origins_of_the_settings_apply_here_too() -> None:
    limited = client(backend(), cors_origins=("http://mine",))
    for origin, allowed in (("http://mine", "http://mine"), ("http://other", None)):
        response = limited.post("/generate", json=body(), headers={"Origin": origin})
        assert response.headers.get("Access-Control-Allow-Origin") == allowed


def test_other_routes_get_no_cors_headers() -> None:
    response = client(backend()).get("/version", headers={"Origin": "http://page"})
    assert "Access-Control-Allow-Origin" not in response.headers
