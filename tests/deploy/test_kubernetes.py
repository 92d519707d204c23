"""The manifests of Kubernetes agree with the server and with each other.

docs/kubernetes.md says how they are checked against the schemas of Kubernetes.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml
from flask import Flask

from api import create_app
from inference.metrics import Metrics
from settings.groups import ServerSettings
from settings.schema import NAMES
from settings.sources import read_sources, resolve
from tests.fakes.fake_backend import FakeBackend, make_models

ROOT = Path(__file__).parents[2]
MANIFESTS = ROOT / "deploy" / "kubernetes"
PROBES = ("startupProbe", "livenessProbe", "readinessProbe")
END_S = 10  # after draining


def resources() -> dict[str, Mapping[str, Any]]:
    """Every resource by its kind."""
    texts = [path.read_text() for path in sorted(MANIFESTS.glob("*.yaml"))]
    return {resource["kind"]: resource for text in texts for resource in yaml.safe_load_all(text)}


RESOURCES = resources()
POD = RESOURCES["Deployment"]["spec"]["template"]
CONTAINER = POD["spec"]["containers"][0]
ENVIRONMENT = {variable["name"]: variable.get("value") for variable in CONTAINER["env"]}


@pytest.fixture(scope="module")
def app() -> Flask:
    return create_app(make_models(FakeBackend()), ServerSettings(api_keys=("secret",)), Metrics())


def test_every_variable_is_a_setting_with_a_valid_value() -> None:
    variables = {name: value or "from-the-secret" for name, value in ENVIRONMENT.items()}
    assert set(variables) <= set(NAMES)
    settings = resolve(read_sources(ROOT, variables))
    assert settings.host == "0.0.0.0" and settings.api_keys == ("from-the-secret",)


@pytest.mark.parametrize("probe", PROBES)
def test_a_probe_needs_no_key(probe: str, app: Flask) -> None:
    request = CONTAINER[probe]["httpGet"]
    assert request["port"] == CONTAINER["ports"][0]["name"]
    assert app.test_client().get(request["path"]).status_code == 200


def test_a_pod_is_ended_after_it_has_drained() -> None:
    before_s = CONTAINER["lifecycle"]["preStop"]["sleep"]["seconds"]
    drain_s = float(ENVIRONMENT["DRAIN_SECONDS"] or 0)
    assert before_s > CONTAINER["readinessProbe"]["periodSeconds"]
    assert POD["spec"]["terminationGracePeriodSeconds"] >= before_s + drain_s + END_S


def test_the_cache_is_the_volume() -> None:
    volume = POD["spec"]["volumes"][0]
    mount = CONTAINER["volumeMounts"][0]
    assert mount["name"] == volume["name"] and mount["mountPath"] == ENVIRONMENT["CACHE_DIR"]
    claim = RESOURCES["PersistentVolumeClaim"]["metadata"]["name"]
    assert volume["persistentVolumeClaim"]["claimName"] == claim


def test_every_selector_matches_the_pods() -> None:
    labels = POD["metadata"]["labels"]
    assert RESOURCES["Deployment"]["spec"]["selector"]["matchLabels"] == labels
    assert RESOURCES["Service"]["spec"]["selector"] == labels
    assert RESOURCES["InferencePool"]["spec"]["selector"]["matchLabels"] == labels


def test_every_port_is_that_of_the_server() -> None:
    port = CONTAINER["ports"][0]
    assert str(port["containerPort"]) == ENVIRONMENT["PORT"]
    assert RESOURCES["Service"]["spec"]["ports"][0]["targetPort"] == port["name"]
    assert RESOURCES["InferencePool"]["spec"]["targetPorts"] == [{"number": port["containerPort"]}]


def test_the_route_leads_to_the_pool() -> None:
    pool = RESOURCES["InferencePool"]
    backend = RESOURCES["HTTPRoute"]["spec"]["rules"][0]["backendRefs"][0]
    assert backend["kind"] == pool["kind"] and backend["name"] == pool["metadata"]["name"]
    assert pool["apiVersion"].startswith(f"{backend['group']}/")
