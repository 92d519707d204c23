"""What a generation tells about the server: its models, health, version, providers and routes."""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

from flask import Blueprint, Response, current_app, request

from api.errors import reply
from api.llama_stack.answers import (
    ErrorBody,
    Health,
    Models,
    Provider,
    Providers,
    ProvidersByApi,
    Routes,
    RoutesByApi,
    Version,
)
from api.llama_stack.generation import Generation
from api.models import Card, card, cards, known, shown
from api.operation import Operation, described
from api.settings import AppSettings
from inference.backend import Backend
from inference.errors import BadRequest, NotFound

Views = dict[str, Callable[..., Response]]

PROVIDER = {"provider_id": "local", "provider_type": "inline::hearth"}
PROTOCOL = "0.2.12"  # the release of Llama Stack whose routes and shapes these are
HEALTH = {"status": "OK"}  # clients compare it with exactly this


def install(blueprint: Blueprint, generation: Generation, backend: Backend, settings: AppSettings) -> None:
    views = _typed if generation.typed else _untyped
    for path, view in views(generation, backend, settings).items():
        blueprint.add_url_rule(path, path, view)


def _untyped(generation: Generation, backend: Backend, settings: AppSettings) -> Views:
    """Before 0.1: lists have paths of their own and are bare."""
    name = {"identifier": "The model's name; core_model_id is understood too."}
    return {
        "/models/list": _view("The models", list[Card], lambda: cards(backend.info(), settings)),
        "/models/get": _view("One model", Card, lambda: _model(_identifier(), backend, settings), name),
        "/health": _view("Whether the server answers", Health, lambda: HEALTH),
        "/providers/list": _view("Who answers", ProvidersByApi, lambda: {"inference": [PROVIDER]}),
        "/routes/list": _view("The routes", RoutesByApi, lambda: {"inference": _routes(generation.prefix)}),
    }


def _typed(generation: Generation, backend: Backend, settings: AppSettings) -> Views:
    """Since 0.1: lists are `data`, as OpenAI's are."""
    return {
        "/models": _view("The models", Models, lambda: Models("list", cards(backend.info(), settings))),
        "/models/<path:name>": _view("One model", Card, lambda name: _model(name, backend, settings)),
        "/health": _view("Whether the server answers", Health, lambda: HEALTH),
        "/version": _view("The release of Llama Stack spoken", Version, lambda: Version(PROTOCOL)),
        "/providers": _view("Who answers", Providers, lambda: {"data": [_provider()]}),
        "/providers/<name>": _view("One provider", Provider, _named_provider),
        "/inspect/providers": _view("Who answers", Providers, lambda: {"data": [_provider()]}),
        "/inspect/routes": _view("The routes", Routes, lambda: {"data": _routes(generation.prefix)}),
    }


def _view(
    summary: str, answer: Any, tell: Callable[..., Any], query: Mapping[str, str] = MappingProxyType({})
) -> Callable[..., Response]:
    operation = Operation(summary, answer=answer, error=ErrorBody, query=query)
    return described(lambda **args: reply(200, tell(**args)), operation)


def _identifier() -> str:
    """The model asked for, under the name that clients have used since 0.0.40, or the one before."""
    name = request.args.get("identifier") or request.args.get("core_model_id")
    if not name:
        raise BadRequest("identifier", "is required in the query")
    return name


def _model(name: str, backend: Backend, settings: AppSettings) -> Card:
    info = backend.info()
    if not known(name, info, settings):
        raise NotFound(f"Model '{shown(name)}' not found: this server has '{info.id}'")
    return card(name, info)


def _provider() -> dict[str, Any]:
    return {"api": "inference", **PROVIDER, "config": {}, "health": HEALTH}


def _named_provider(name: str) -> dict[str, Any]:
    if name != PROVIDER["provider_id"]:
        raise NotFound(f"Provider '{shown(name)}' not found: this server has '{PROVIDER['provider_id']}'")
    return _provider()


def _routes(prefix: str) -> list[dict[str, Any]]:
    """Every route under `prefix` of the app that answers."""
    return [
        {"route": rule.rule, "method": method, "provider_types": [PROVIDER["provider_type"]]}
        for rule in sorted(current_app.url_map.iter_rules(), key=lambda rule: rule.rule)
        if rule.rule.startswith(f"{prefix}/")
        for method in sorted((rule.methods or set()) - {"HEAD", "OPTIONS"})
    ]
