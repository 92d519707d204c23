"""vLLM's routes that load and unload LoRA adapters, and OpenAI's route that deletes a fine-tuned model.

Knows the JSON and the sentences of both. api/adapters.py loads.
"""

from typing import ClassVar, Literal

from flask import Blueprint, Response
from msgspec import Struct

from api.adapters import adapter_loader
from api.errors import json_response
from api.hooks.tuning_access import current_service
from api.openai.errors import InvalidParameter
from api.openai.protocol.errors import ErrorResponse
from api.openai.requests.parse import read_request
from api.openapi.operation import Operation, attach_operation
from inference.errors import NotFound
from inference.served import shorten_name

TEXT = "text/plain"
LOADED = "Success: LoRA adapter '{}' added successfully."
UNLOADED = "Success: LoRA adapter '{}' removed successfully."
BOTH_REQUIRED = "Both 'lora_name' and 'lora_path' must be provided."
NAME_REQUIRED = "'lora_name' needs to be provided to unload a LoRA adapter."
NAME_IN_USE = (
    "The lora adapter '{}' has already been loaded. If you want to load the adapter in place, set "
    "'load_inplace' to True."
)
UNKNOWN = "The lora adapter '{}' cannot be found."


class LoadAdapterRequest(Struct):
    """An adapter to load.

    lora_name        the name by which requests call it
    lora_path        its folder below ADAPTER_DIRS, or its name on the Hub, with @revision for a version
    load_inplace     replace a loaded adapter of this name; running requests keep the one that they began with
    base_model_name  its model, as in --lora-modules; null: the one that has an adapter of this name, else the
                     first one on this machine
    """

    lora_name: str | None = None
    lora_path: str | None = None
    load_inplace: bool | None = None
    base_model_name: str | None = None


class UnloadAdapterRequest(Struct):
    """An adapter to unload, by its name. Running requests keep it to their end."""

    lora_name: str | None = None


class DeletedModel(Struct, kw_only=True):
    id: str
    object: Literal["model"] = "model"
    deleted: bool = True


class InvalidUserInput(InvalidParameter):
    """A field of vLLM's adapter routes is missing, or a name is taken."""

    type: ClassVar[str] = "InvalidUserInput"


LOAD_ADAPTER = Operation(
    "Load a LoRA adapter", body=LoadAdapterRequest, response=None, media_type=TEXT, error=ErrorResponse
)
UNLOAD_ADAPTER = Operation(
    "Unload a LoRA adapter", body=UnloadAdapterRequest, response=None, media_type=TEXT, error=ErrorResponse
)
DELETE_MODEL = Operation(
    "Unload an adapter, and delete what a job of this server has trained",
    response=DeletedModel,
    error=ErrorResponse,
)


def install_adapters(blueprint: Blueprint, prefix: str) -> None:
    views = {"load_lora_adapter": (load, LOAD_ADAPTER), "unload_lora_adapter": (unload, UNLOAD_ADAPTER)}
    for name, (view, operation) in views.items():
        blueprint.add_url_rule(f"{prefix}/{name}", name, attach_operation(view, operation), methods=["POST"])


def install_delete(blueprint: Blueprint, prefix: str) -> None:
    rule = f"{prefix}/models/<path:name>"
    view = attach_operation(delete_model, DELETE_MODEL)
    blueprint.add_url_rule(rule, f"DELETE {rule}", view, methods=["DELETE"])


def load() -> Response:
    body, loader = read_request(LoadAdapterRequest), adapter_loader()
    if not body.lora_name or not body.lora_path:
        raise InvalidUserInput(BOTH_REQUIRED, "lora_path" if body.lora_name else "lora_name")
    if loader.find(body.lora_name) and not body.load_inplace:
        raise InvalidUserInput(NAME_IN_USE.format(body.lora_name), "lora_name")
    loader.load(
        body.lora_name, body.lora_path, base_model=body.base_model_name, replace=bool(body.load_inplace)
    )
    return Response(LOADED.format(body.lora_name), content_type=f"{TEXT}; charset=utf-8")


def unload() -> Response:
    name, loader = read_request(UnloadAdapterRequest).lora_name, adapter_loader()
    if not name:
        raise InvalidUserInput(NAME_REQUIRED, "lora_name")
    if loader.find(name) is None:
        raise NotFound(UNKNOWN.format(shorten_name(name)))
    loader.unload(name)
    return Response(UNLOADED.format(name), content_type=f"{TEXT}; charset=utf-8")


def delete_model(name: str) -> Response:
    """Unload an adapter; delete the files of what was trained here, an adapter or a whole model."""
    loader, tuning = adapter_loader(), current_service()
    loader.check_is_removable(name)
    is_deleted = tuning is not None and tuning.jobs.delete_model(name)
    if loader.find(name) or not is_deleted:
        loader.unload(name)
    return json_response(200, DeletedModel(id=name))
