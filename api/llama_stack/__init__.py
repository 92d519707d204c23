"""The Llama Stack dialect: a blueprint with all versions of its protocol. Entry point: make_blueprint."""

from collections.abc import Iterable

from flask import Blueprint

from api.errors import render_server_errors
from api.llama_stack import datasets, info_routes, post_training, routes
from api.llama_stack.errors import error_before_start
from api.llama_stack.tuning_route import TuningRoute, add_routes
from api.llama_stack.versions import DATASET_VERSIONS, POST_TRAINING_VERSIONS, VERSIONS, ProtocolVersion
from inference.models import Models
from settings.groups import ServerSettings


def make_blueprint(models: Models, settings: ServerSettings) -> Blueprint:
    blueprint = Blueprint("llama_stack", __name__)
    for version in VERSIONS:
        blueprint.register_blueprint(_version_blueprint(version, models, settings))
    for version in POST_TRAINING_VERSIONS:
        training = post_training.make_routes(version, models, settings)
        blueprint.register_blueprint(_tuning_blueprint(version, "post_training", training))
    for version in DATASET_VERSIONS:
        dataset_routes = datasets.make_routes(version)
        blueprint.register_blueprint(_tuning_blueprint(version, "datasets", dataset_routes))
    return blueprint


def _version_blueprint(version: ProtocolVersion, models: Models, settings: ServerSettings) -> Blueprint:
    blueprint = Blueprint(version.name, __name__, url_prefix=version.prefix)
    routes.install(blueprint, version, models, settings)
    info_routes.install_info(blueprint, version, models)
    render_server_errors(blueprint, error_before_start)
    return blueprint


def _tuning_blueprint(version: ProtocolVersion, name: str, tuning_routes: Iterable[TuningRoute]) -> Blueprint:
    blueprint = Blueprint(f"{version.name}_{name}", __name__, url_prefix=version.prefix)
    add_routes(blueprint, version, tuning_routes)
    render_server_errors(blueprint, error_before_start)
    return blueprint
