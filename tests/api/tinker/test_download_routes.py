"""Downloads of checkpoints by signed URLs."""

import io
import tarfile
from pathlib import Path

import pytest
from flask.testing import FlaskClient

from api import create_app
from api.services import Services
from settings.groups import ServerSettings
from tests.api.tinker.scripted_runs import RUN, ScriptedRuns, service_of
from tests.fakes.fake_backend import FakeBackend, make_models

EXTERNAL = f"/api/v1/training_runs/{RUN}/checkpoints/external_weights/x"
KEY = {"X-API-Key": "secret"}


@pytest.fixture
def api(tmp_path: Path) -> FlaskClient:
    """A server with a key, whose only checkpoint has one file."""
    (tmp_path / "adapter_config.json").write_text("{}")
    settings = ServerSettings(version="1.2.3", api_keys=("secret",))
    app = create_app(
        make_models(FakeBackend()),
        settings,
        services=Services(tuning=service_of(ScriptedRuns(folder=tmp_path))),
    )
    return app.test_client()


def test_the_files_of_an_external_checkpoint_need_no_key_by_their_urls(api: FlaskClient) -> None:
    assert api.get(f"{EXTERNAL}/external_weights_urls").status_code == 401
    reply = api.get(f"{EXTERNAL}/external_weights_urls", headers=KEY).json
    assert list(reply["urls"]) == ["adapter_config.json"] and reply["expires"].endswith("Z")
    assert api.get(reply["urls"]["adapter_config.json"]).data == b"{}"


def test_a_changed_url_is_refused(api: FlaskClient) -> None:
    url = api.get(f"{EXTERNAL}/external_weights_urls", headers=KEY).json["urls"]["adapter_config.json"]
    prefix, expires, rest = url.partition("/downloads/")[0], *url.partition("/downloads/")[2].split("/", 1)
    for changed in (
        f"{prefix}/downloads/{int(expires) + 1}/{rest}",
        f"{prefix}/downloads/x/{rest}",
        url.replace("adapter_config.json", "optimizer.safetensors"),
        url.replace("external_weights", "weights"),
    ):
        assert api.get(changed).status_code == 403


def test_a_checkpoint_is_downloaded_as_a_tar_file(api: FlaskClient) -> None:
    reply = api.get(f"{EXTERNAL}/archive", headers=KEY)
    assert reply.status_code == 302 and "Expires" in reply.headers
    with tarfile.open(fileobj=io.BytesIO(api.get(reply.headers["Location"]).data)) as tar:
        assert tar.getnames() == ["adapter_config.json"]


def test_checkpoints_of_other_kinds_have_no_urls(api: FlaskClient) -> None:
    reply = api.get(EXTERNAL.replace("external_weights", "weights") + "/external_weights_urls", headers=KEY)
    assert reply.status_code == 400 and "save_weights_external" in reply.json["detail"]


@pytest.mark.parametrize(("version", "count"), [("0.38.0", 1), ("0.28.0", 1), ("0.27.1", 0), ("", 1)])
def test_old_clients_do_not_see_external_checkpoints(api: FlaskClient, version: str, count: int) -> None:
    headers = KEY | {"X-Stainless-Package-Version": version}
    assert len(api.get("/api/v1/checkpoints", headers=headers).json["checkpoints"]) == count
