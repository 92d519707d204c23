"""What a generation tells about the server: its models, health, version, providers and routes."""

from collections.abc import Callable
from typing import Any

from flask import Blueprint, Response, current_app, request

from api.errors import reply
from api.llama_stack.generation import Generation
from api.models import card, cards, known
from api.settings import AppSettings
from inference.backend import Backend
from inference.errors import BadRequest, NotFound

Tellers = dict[str, Callable[..., Any]]

PROVIDER = {"provider_id": "local", "provider_type": "inline::hearth"}
PROTOCOL = "0.2.12"  # the release of Llama Stack whose routes and shapes these are
HEALTH = {"status": "OK"}  # clients compare it with exactly this


def install(blueprint: Blueprint, generation: Generation, backend: Backend, settings: AppSettings) -> None:
    tellers = _typed if generation.typed else _untyped
    for path, tell in tellers(generation, backend, settings).items():
        blueprint.add_url_rule(path, path, _view(tell))


def _untyped(generation: Generation, backend: Backend, settings: AppSettings) -> Tellers:
    """Before 0.1: lists have paths of their own and are bare."""
    return {
        "/models/list": lambda: cards(backend.info(), settings),
        "/models/get": lambda: _model(_identifier(), backend, settings),
        "/health": lambda: HEALTH,
        "/providers/list": lambda: {"inference": [PROVIDER]},
        "/routes/list": lambda: {"inference": _routes(generation.prefix)},
    }


def _typed(generation: Generation, backend: Backend, settings: AppSettings) -> Tellers:
    """Since 0.1: lists are `data`, as OpenAI's are."""
    return {
        "/models": lambda: {"object": "list", "data": cards(backend.info(), settings)},
        "/models/<path:name>": lambda name: _model(name, backend, settings),
        "/health": lambda: HEALTH,
        "/version": lambda: {"version": PROTOCOL},
        "/providers": lambda: {"data": [_provider()]},
        "/providers/<name>": _named_provider,
        "/inspect/providers": lambda: {"data": [_provider()]},
        "/inspect/routes": lambda: {"data": _routes(generation.prefix)},
    }


def _view(tell: Callable[..., Any]) -> Callable[..., Response]:
    return lambda **args: reply(200, tell(**args))


def _identifier() -> str:
    """The model asked for, under the name that clients have used since 0.0.40, or the one before."""
    name = request.args.get("identifier") or request.args.get("core_model_id")
    if not name:
        raise BadRequest("identifier", "is required in the query")
    return name


def _model(name: str, backend: Backend, settings: AppSettings) -> dict[str, Any]:
    info = backend.info()
    if not known(name, info, settings):
        raise NotFound(f"Model '{name}' not found: this server has '{info.id}'")
    return card(name, info)


def _provider() -> dict[str, Any]:
    return {"api": "inference", **PROVIDER, "config": {}, "health": HEALTH}


def _named_provider(name: str) -> dict[str, Any]:
    if name != PROVIDER["provider_id"]:
        raise NotFound(f"Provider '{name}' not found: this server has '{PROVIDER['provider_id']}'")
    return _provider()


def _routes(prefix: str) -> list[dict[str, Any]]:
    """Every route under `prefix` of the app that answers."""
    return [
        {"route": rule.rule, "method": method, "provider_types": [PROVIDER["provider_type"]]}
        for rule in sorted(current_app.url_map.iter_rules(), key=lambda rule: rule.rule)
        if rule.rule.startswith(f"{prefix}/")
        for method in sorted((rule.methods or set()) - {"HEAD", "OPTIONS"})
    ]
