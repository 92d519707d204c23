"""Routes that describe the server: models, health, version, providers, routes."""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

from flask import Blueprint, Response, current_app, request
from msgspec import UNSET, Struct, UnsetType

from api.errors import json_response
from api.llama_stack.protocol.errors import LlamaStackErrorResponse
from api.llama_stack.versions import ProtocolVersion
from api.model_card import PROVIDER_ID, ModelCard, model_card, model_cards
from api.openapi.document import listed_methods
from api.openapi.operation import Operation, attach_operation
from inference.errors import BadRequest, NotFound
from inference.models import Models
from inference.served import shorten_name


class HealthInfo(Struct):
    status: str


class ProviderInfo(Struct, kw_only=True):
    """A provider. ProvidersByApi lists only its id and type."""

    api: str | UnsetType = UNSET
    provider_id: str
    provider_type: str
    config: dict[str, Any] | UnsetType = UNSET
    health: HealthInfo | UnsetType = UNSET


class RouteInfo(Struct):
    route: str
    method: str
    provider_types: list[str]


class ListModelsResponse(Struct):
    object: str
    data: list[ModelCard]


class VersionInfo(Struct):
    version: str


class ListProvidersResponse(Struct):
    data: list[ProviderInfo]


class ListRoutesResponse(Struct):
    data: list[RouteInfo]


class ProvidersByApi(Struct):
    inference: list[ProviderInfo]


class RoutesByApi(Struct):
    inference: list[RouteInfo]


Views = dict[str, Callable[..., Response]]

PROVIDER_TYPE = "inline::hearth"
PROTOCOL = "0.2.12"  # the release of Llama Stack that these routes are compatible with
HEALTH = HealthInfo("OK")  # clients compare the status with this text


def install_info(blueprint: Blueprint, version: ProtocolVersion, models: Models) -> None:
    views = _views_since_v1 if version.typed_deltas else _views_before_v1
    for path, view in views(version, models).items():
        blueprint.add_url_rule(path, path, view)


def _views_before_v1(version: ProtocolVersion, models: Models) -> Views:
    """The routes before 0.1: lists have their own paths, and are plain arrays."""
    name = {"identifier": "The model's name. `core_model_id` is accepted too."}
    return {
        "/models/list": _view("List the models", list[ModelCard], lambda: model_cards(models)),
        "/models/get": _view(
            "Show a model", ModelCard, lambda: model_card(models.resolve(_requested_model()).card), name
        ),
        "/health": _view("Check that the server answers", HealthInfo, lambda: HEALTH),
        "/providers/list": _view(
            "List the providers",
            ProvidersByApi,
            lambda: ProvidersByApi([ProviderInfo(provider_id=PROVIDER_ID, provider_type=PROVIDER_TYPE)]),
        ),
        "/routes/list": _view("List the routes", RoutesByApi, lambda: RoutesByApi(_routes(version.prefix))),
    }


def _views_since_v1(version: ProtocolVersion, models: Models) -> Views:
    """The routes since 0.1: lists are in `data`, as in OpenAI's API."""
    return {
        "/models": _view(
            "List the models",
            ListModelsResponse,
            lambda: ListModelsResponse("list", model_cards(models)),
        ),
        "/models/<path:name>": _view(
            "Show a model", ModelCard, lambda name: model_card(models.resolve(name).card)
        ),
        "/health": _view("Check that the server answers", HealthInfo, lambda: HEALTH),
        "/version": _view(
            "Show the release of Llama Stack that this API follows",
            VersionInfo,
            lambda: VersionInfo(PROTOCOL),
        ),
        "/providers": _view(
            "List the providers", ListProvidersResponse, lambda: ListProvidersResponse([_provider()])
        ),
        "/providers/<name>": _view("Show a provider", ProviderInfo, _provider_by_name),
        "/inspect/providers": _view(
            "List the providers", ListProvidersResponse, lambda: ListProvidersResponse([_provider()])
        ),
        "/inspect/routes": _view(
            "List the routes", ListRoutesResponse, lambda: ListRoutesResponse(_routes(version.prefix))
        ),
    }


def _view(
    summary: str,
    response_type: Any,
    make_response: Callable[..., Any],
    query: Mapping[str, str] = MappingProxyType({}),
) -> Callable[..., Response]:
    operation = Operation(summary, response=response_type, error=LlamaStackErrorResponse, query=query)
    return attach_operation(lambda **args: json_response(200, make_response(**args)), operation)


def _requested_model() -> str:
    """The model name in the query: `identifier`, or `core_model_id` from clients before 0.0.40."""
    name = request.args.get("identifier") or request.args.get("core_model_id")
    if not name:
        raise BadRequest("identifier", "is required in the query")
    return name


def _provider() -> ProviderInfo:
    return ProviderInfo(
        api="inference", provider_id=PROVIDER_ID, provider_type=PROVIDER_TYPE, config={}, health=HEALTH
    )


def _provider_by_name(name: str) -> ProviderInfo:
    if name != PROVIDER_ID:
        raise NotFound(f"Provider '{shorten_name(name)}' not found: this server has '{PROVIDER_ID}'")
    return _provider()


def _routes(prefix: str) -> list[RouteInfo]:
    """All routes of the app below `prefix`."""
    return [
        RouteInfo(rule.rule, method, [PROVIDER_TYPE])
        for rule in sorted(current_app.url_map.iter_rules(), key=lambda rule: rule.rule)
        if rule.rule.startswith(f"{prefix}/")
        for method in listed_methods(rule)
    ]
