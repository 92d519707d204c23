"""The smoke client distinguishes right answers from wrong ones, with the real app over a scripted backend."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import pytest
from werkzeug.serving import make_server

import use
from api import create_app
from inference.errors import Internal
from settings.groups import ServerSettings
from tests.fakes.fake_backend import FakeBackend, Script, make_models, say
from tests.settings.parsed_settings import parsed_settings

POLL_S = 0.02  # how soon the server sees its shutdown


@contextmanager
def served(script: Script, keys: tuple[str, ...] = ()) -> Iterator[str]:
    server = make_server(
        "127.0.0.1",
        0,
        create_app(make_models(FakeBackend(script)), ServerSettings(api_keys=keys)),
        threaded=True,
    )
    thread = threading.Thread(target=server.serve_forever, args=[POLL_S])
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def test_right_answers_from_all_endpoints_exit_with_0(capsys: pytest.CaptureFixture[str]) -> None:
    with served(say("It is", " Paris", ".")) as url:
        assert use.main(["--url", url]) == 0
    printed = capsys.readouterr().out
    assert printed.count("It is Paris.") == 4
    assert printed.count("(3 tokens in ") == 2


def test_a_wrong_answer_exits_with_1() -> None:
    with served(say("Rome")) as url:
        assert use.main(["--url", url]) == 1


def test_another_question_may_have_another_answer() -> None:
    with served(say("Rome")) as url:
        assert use.main(["--url", url, "--prompt", "And of Italy?", "--stream"]) == 0


def test_an_empty_answer_is_wrong(capsys: pytest.CaptureFixture[str]) -> None:
    with served(say(" ")) as url:
        assert use.main(["--url", url, "--prompt", "Say nothing.", "--no-stream"]) == 1
    assert "/inference/completion gave an empty answer" in capsys.readouterr().err


def test_a_stream_that_fails_is_wrong(capsys: pytest.CaptureFixture[str]) -> None:
    with served([*say("It is", " Paris")[:-1], Internal("out of luck")]) as url:
        assert use.main(["--url", url, "--stream"]) == 1
    assert "out of luck" in capsys.readouterr().err


def test_a_key_is_sent() -> None:
    with served(say("Paris"), keys=("sesame",)) as url:
        assert use.main(["--url", url, "--no-stream"]) == 1
        assert use.main(["--url", url, "--no-stream", "--api-key", "sesame"]) == 0


def test_the_servers_settings_name_its_address_and_key(monkeypatch: pytest.MonkeyPatch) -> None:
    with served(say("Paris"), keys=("sesame",)) as url:
        monkeypatch.setenv("PORT", url.rpartition(":")[2])
        monkeypatch.setenv("HOST", "0.0.0.0")
        assert use.main(["--no-stream"]) == 1
        monkeypatch.setenv("API_KEYS", "sesame,other")
        assert use.main(["--no-stream"]) == 0


@pytest.mark.parametrize(
    ("values", "url"),
    [
        ({}, "http://127.0.0.1:8000"),
        ({"host": "::", "port": 9000}, "http://[::1]:9000"),
        ({"host": "192.0.2.1", "ssl_certfile": "a.pem"}, "https://192.0.2.1:8000"),
    ],
)
def test_the_url_is_the_one_that_the_settings_bind(values: dict[str, Any], url: str) -> None:
    assert use.server_url(replace(parsed_settings(), **values)) == url


def test_another_machine_does_not_get_the_key_of_the_settings() -> None:
    settings = replace(parsed_settings(), api_keys=("sesame",))
    for url, key in (("http://192.0.2.1:8000", None), ("http://localhost:9000", "sesame"), (None, "sesame")):
        options = use.make_parser().parse_args(["--url", url] if url else [])
        use.fill_defaults(options, settings)
        assert options.api_key == key


def test_a_wrong_setting_is_named(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PORT", "web")
    assert use.main([]) == 2
    assert "environment: PORT must be a whole number" in capsys.readouterr().err


def test_an_unreachable_server_exits_with_1() -> None:
    assert use.main(["--url", "http://127.0.0.1:9", "--no-stream"]) == 1
