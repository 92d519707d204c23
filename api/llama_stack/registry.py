"""What a generation tells about the server: its models, health, version, providers and routes."""

from collections.abc import Callable
from typing import Any

from flask import Blueprint, Response, current_app, request

from api.errors import reply
from api.llama_stack.generation import Generation
from api.llama_stack.models import card, cards, known
from api.settings import AppSettings
from inference.backend import Backend
from inference.types import BadRequest, NotFound

PROVIDER = {"provider_id": "local", "provider_type": "inline::hearth"}
HEALTH = {"status": "OK"}  # clients compare it with exactly this


def install(blueprint: Blueprint, generation: Generation, backend: Backend, settings: AppSettings) -> None:
    """Generations before 0.1 ask for lists by the path …/list and read bare values; later ones `data`."""

    def one(name: str) -> Any:
        info = backend.info()
        if not known(name, info, settings):
            raise NotFound(f"Model '{name}' not found: this server has '{info.id}'")
        return card(name, info)

    def listed() -> Any:
        models = cards(backend.info(), settings)
        return {"object": "list", "data": models} if generation.typed else models

    def version() -> Any:
        return {"version": settings.version}

    old: dict[str, Callable[..., Any]] = {
        "/models/list": listed,
        "/models/get": lambda: one(_identifier()),
        "/health": lambda: HEALTH,
        "/providers/list": lambda: {"inference": [PROVIDER]},
        "/routes/list": lambda: {"inference": _routes(generation.prefix)},
    }
    new: dict[str, Callable[..., Any]] = {
        "/models": listed,
        "/models/<path:name>": one,
        "/health": lambda: HEALTH,
        "/version": version,
        "/providers": lambda: {"data": [_provider()]},
        "/providers/<provider_id>": _the_provider,
        "/inspect/providers": lambda: {"data": [_provider()]},
        "/inspect/routes": lambda: {"data": _routes(generation.prefix)},
    }
    for path, tell in (new if generation.typed else old).items():
        blueprint.add_url_rule(path, path, _view(tell))


def _view(tell: Callable[..., Any]) -> Callable[..., Response]:
    return lambda **args: reply(200, tell(**args))


def _identifier() -> str:
    """The model asked for, under the name that clients have used since 0.0.40, or the one before."""
    name = request.args.get("identifier") or request.args.get("core_model_id")
    if not name:
        raise BadRequest("identifier", "is required in the query")
    return name


def _provider() -> dict[str, Any]:
    return {"api": "inference", **PROVIDER, "config": {}, "health": HEALTH}


def _the_provider(provider_id: str) -> dict[str, Any]:
    if provider_id != PROVIDER["provider_id"]:
        raise NotFound(f"Provider '{provider_id}' not found: this server has '{PROVIDER['provider_id']}'")
    return _provider()


def _routes(prefix: str) -> list[dict[str, Any]]:
    """Every route under `prefix` of the app that answers."""
    return [
        {"route": rule.rule, "method": method, "provider_types": [PROVIDER["provider_type"]]}
        for rule in sorted(current_app.url_map.iter_rules(), key=lambda rule: rule.rule)
        if rule.rule.startswith(f"{prefix}/")
        for method in sorted((rule.methods or set()) - {"HEAD", "OPTIONS"})
    ]
