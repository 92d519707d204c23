"""The smoke client distinguishes right answers from wrong ones, with the real app over a scripted backend."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from werkzeug.serving import make_server

import use
from api import create_app
from inference.errors import Internal
from settings.groups import ServerSettings
from tests.fake_backend import FakeBackend, Script, make_models, say


@contextmanager
def served(script: Script, keys: tuple[str, ...] = ()) -> Iterator[str]:
    server = make_server(
        "127.0.0.1",
        0,
        create_app(make_models(FakeBackend(script)), ServerSettings(api_keys=keys)),
        threaded=True,
    )
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()


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


def test_an_unreachable_server_exits_with_1() -> None:
    assert use.main(["--url", "http://127.0.0.1:9", "--no-stream"]) == 1
