"""The Llama Stack dialect: a blueprint with all versions of its protocol. Entry point: make_blueprint."""

from flask import Blueprint

from api.errors import render_server_errors
from api.llama_stack import info_routes, routes
from api.llama_stack.errors import error_before_start
from api.llama_stack.versions import VERSIONS, ProtocolVersion
from inference.models import Models
from settings.groups import ServerSettings


def make_blueprint(models: Models, settings: ServerSettings) -> Blueprint:
    blueprint = Blueprint("llama_stack", __name__)
    for version in VERSIONS:
        blueprint.register_blueprint(_version_blueprint(version, models, settings))
    return blueprint


def _version_blueprint(version: ProtocolVersion, models: Models, settings: ServerSettings) -> Blueprint:
    blueprint = Blueprint(version.name, __name__, url_prefix=version.prefix)
    routes.install(blueprint, version, models, settings)
    info_routes.install_info(blueprint, version, models)
    info_routes.install_unsupported(blueprint, version)
    render_server_errors(blueprint, error_before_start)
    return blueprint
