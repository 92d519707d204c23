"""Tinker's API: training runs whose loop and losses are in the client. Entry point: make_blueprint."""

from flask import Blueprint

from api.errors import render_errors
from api.tinker import download_routes, listing_routes, run_routes, service_routes
from api.tinker.errors import error_before_start
from api.tinker.loss_aliases import parse_aliases
from api.tinker.sampling import routes as sampling_routes
from api.tinker.tinker_route import add_routes
from inference.models import Models
from settings.groups import ServerSettings


def make_blueprint(models: Models, settings: ServerSettings) -> Blueprint:
    blueprint = Blueprint("tinker", __name__)
    render_errors(blueprint, error_before_start)
    aliases = parse_aliases(settings.tinker_loss_aliases)
    add_routes(blueprint, service_routes.make_routes(models, settings, aliases))
    add_routes(blueprint, run_routes.make_routes(models, aliases))
    add_routes(blueprint, sampling_routes.make_routes(models, aliases))
    add_routes(blueprint, listing_routes.ROUTES)
    add_routes(blueprint, download_routes.make_routes())
    return blueprint
