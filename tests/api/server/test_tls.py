"""HTTPS: the server speaks it with a certificate; other files are refused before the model is loaded."""

import threading
from pathlib import Path
from typing import NoReturn

import pytest
import requests

from api import create_app
from api.server.early_checks import EarlyChecks
from api.server.serve import HttpServer, serve
from settings.groups import HttpSettings, ServerSettings
from settings.schema import BadSetting
from startup.one_model import check
from startup.tls import check_tls
from tests.fakes.fake_backend import FakeBackend, make_models, say
from tests.servers.certificate import make_certificate
from tests.settings.parsed_settings import parsed_settings
from tests.timeouts import TIMEOUT_S


def test_a_certificate_makes_the_server_speak_https(tmp_path: Path) -> None:
    certificate, key = make_certificate(tmp_path)
    backend = FakeBackend(say(*"abc"))
    models = make_models(backend)
    ready = threading.Event()
    servers: list[HttpServer] = []
    settings = HttpSettings(port=0, drain_seconds=1.0, ssl_certfile=str(certificate), ssl_keyfile=str(key))

    def on_ready(server: HttpServer) -> None:
        servers.append(server)
        ready.set()

    thread = threading.Thread(
        target=lambda: serve(
            create_app(models, ServerSettings()),
            models,
            EarlyChecks(lambda method, path: 1000),
            settings,
            on_ready,
        )
    )
    thread.start()
    try:
        assert ready.wait(TIMEOUT_S)
        url = servers[0].url
        assert url.startswith("https://127.0.0.1:")
        body = {"model": "", "prompt": "x", "stream": True}
        response = requests.post(
            f"{url}/v1/completions", json=body, verify=str(certificate), timeout=TIMEOUT_S
        )
        assert response.ok and response.text.endswith("data: [DONE]\n\n")
        with pytest.raises(requests.ConnectionError):
            requests.get(url.replace("https", "http"), timeout=TIMEOUT_S)
    finally:
        servers[0].stop()
        thread.join(TIMEOUT_S)
        backend.close()


def test_a_certificate_and_its_key_are_accepted(tmp_path: Path) -> None:
    certificate, key = make_certificate(tmp_path)
    check_tls(parsed_settings(SSL_CERTFILE=str(certificate), SSL_KEYFILE=str(key)))
    both = tmp_path / "both.pem"
    both.write_text(certificate.read_text() + key.read_text())
    check_tls(parsed_settings(SSL_CERTFILE=str(both)))
    check_tls(parsed_settings())


def test_files_that_are_no_certificate_and_key_are_refused(tmp_path: Path) -> None:
    certificate, key = make_certificate(tmp_path)
    (tmp_path / "other").mkdir()
    _, other_key = make_certificate(tmp_path / "other")
    for certfile, keyfile in (
        (tmp_path / "none", key),
        (key, ""),
        (certificate, other_key),
        (certificate, ""),
    ):
        with pytest.raises(BadSetting, match=r"^SSL_CERTFILE=.* must be PEM files"):
            check_tls(parsed_settings(SSL_CERTFILE=str(certfile), SSL_KEYFILE=str(keyfile)))


def test_a_key_with_a_password_is_refused_without_a_prompt_on_the_terminal(tmp_path: Path) -> None:
    certificate, key = make_certificate(tmp_path, password="sesame")
    with pytest.raises(BadSetting, match="which has no password"):
        check_tls(parsed_settings(SSL_CERTFILE=str(certificate), SSL_KEYFILE=str(key)))


def test_a_check_of_the_model_also_refuses_a_certificate_that_cannot_be_served() -> None:
    def resolve() -> NoReturn:
        raise AssertionError("the model is not looked up")

    with pytest.raises(BadSetting, match=r"^SSL_CERTFILE=/none: .*No such file"):
        check(parsed_settings(SSL_CERTFILE="/none"), resolve, as_json=False)
