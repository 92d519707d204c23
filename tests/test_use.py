"""The smoke client says right and wrong apart, against the real app over a scripted backend."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from werkzeug.serving import make_server

import use
from api import create_app
from api.settings import AppSettings
from inference.errors import Internal
from tests.fake_backend import FakeBackend, Script, say


@contextmanager
def served(script: Script, keys: tuple[str, ...] = ()) -> Iterator[str]:
    server = make_server(
        "127.0.0.1", 0, create_app(FakeBackend(script), AppSettings(api_keys=keys)), threaded=True
    )
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()


def test_a_right_answer_from_every_endpoint_exits_with_0(capsys: pytest.CaptureFixture[str]) -> None:
    with served(say("It is", " Paris", ".")) as url:
        assert use.main(["--url", url]) == 0
    told = capsys.readouterr().out
    assert told.count("It is Paris.") == 4
    assert told.count("(3 tokens in ") == 2


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


def test_a_server_that_is_not_there_is_wrong() -> None:
    assert use.main(["--url", "http://127.0.0.1:9", "--no-stream"]) == 1
