"""Health, readiness, the index and metrics."""

from flask.testing import FlaskClient

from api import create_app
from api.wsgi_environ import DRAINING
from inference.metrics import Metrics
from settings.groups import ServerSettings
from tests.fakes.fake_backend import FakeBackend, make_models


def test_health_is_what_llama_stack_clients_expect(client: FlaskClient) -> None:
    response = client.get("/health")
    assert (response.status_code, response.json) == (200, {"status": "OK"})


def test_a_loading_server_is_alive_but_not_ready(client: FlaskClient, backend: FakeBackend) -> None:
    backend.unready_reason = "the model is loading"
    response = client.get("/health/ready")
    assert (client.get("/health/live").status_code, response.status_code) == (200, 503)
    assert response.json["error"]["message"] == "the model is loading"


def test_a_draining_server_is_alive_but_not_ready(client: FlaskClient) -> None:
    draining = {DRAINING: 4.2}
    response = client.get("/health/ready", environ_overrides=draining)
    assert client.get("/health/live", environ_overrides=draining).status_code == 200
    assert (response.status_code, response.headers["Retry-After"]) == (503, "5")


def test_the_index_lists_the_model_and_every_route(client: FlaskClient) -> None:
    index = client.get("/").json
    assert (index["version"], index["model"]) == ("1.2.3", "fake/model")
    assert "GET /health/ready" in index["routes"]["ops"]


def test_metrics_are_served_if_there_are_any(backend: FakeBackend, client: FlaskClient) -> None:
    measured = create_app(make_models(backend), ServerSettings(), Metrics()).test_client()
    measured.get("/health")
    response = measured.get("/metrics")
    assert response.mimetype == "text/plain"
    assert 'hearth_requests_total{dialect="ops",route="/health",status="200"} 1.0' in response.text
    assert client.get("/metrics").status_code == 404
