"""h2oGPT's system_info_dict: plain settings, the first model, temperatures and free GPU memory, by its keys.

Entry point: make_blueprint. h2oGPT itself uses this server by the dialects of OpenAI and TGI.
"""

from collections.abc import Callable, Mapping
from dataclasses import fields
from typing import Any

import msgspec
import psutil
from flask import Blueprint, Response
from msgspec import Struct

from api.errors import json_response, render_errors
from api.management.llama_cpp import error_before_start
from api.openai.requests.parse import read_request
from api.openapi.operation import Operation, attach_operation
from inference.backend import Backend
from inference.models import Models
from settings.groups import ServerSettings

NAME = "system_info_dict"
PLAIN = (str, int, float)  # types of the values; bool is an int


class GradioCall(Struct):
    """The arguments of a function of gradio. h2oGPT's ADMIN_PASS is one: it has no effect, as keys do."""

    data: list[Any] = []


class GradioResult(Struct):
    """The results of a function of gradio: one text."""

    data: list[str]


INFO = Operation("Show settings, model and machine, by h2oGPT's names")
CALL = Operation(
    "Show settings, model and machine, as h2oGPT's function of gradio",
    "The result is the JSON of GET /system_info_dict as text.",
    body=GradioCall,
    response=GradioResult,
)


def make_blueprint(models: Models, settings: ServerSettings) -> Blueprint:
    blueprint = Blueprint("h2ogpt", __name__)

    def info() -> Response:
        return json_response(200, system_info(models.default.backend, settings))

    def call() -> Response:
        read_request(GradioCall)
        text = msgspec.json.encode(system_info(models.default.backend, settings)).decode()
        return json_response(200, GradioResult([text]))

    blueprint.add_url_rule(f"/{NAME}", "info", attach_operation(info, INFO))
    blueprint.add_url_rule(f"/run/{NAME}", "call", attach_operation(call, CALL), methods=["POST"])
    render_errors(blueprint, error_before_start)
    return blueprint


def system_info(backend: Backend, settings: ServerSettings) -> dict[str, Any]:
    """Without keys and paths of folders: settings that are lists are left out.

    hash               the server's version
    CPU_C/NAME         degrees Celsius of a sensor
    GPU_M/MiB_gpuN     free share of a GPU's memory, 0 to 1
    """
    info = backend.info()
    plain = {each.name: getattr(settings, each.name) for each in fields(settings)}
    shares = {
        f"GPU_M/MiB_gpu{number}": device.free / device.total
        for number, device in enumerate(backend.current_load().devices)
    }
    return {
        **{name: value for name, value in plain.items() if isinstance(value, PLAIN)},
        **info.details,
        "base_model": info.id,
        "max_seq_len": info.context,
        "hash": settings.version,
        **core_temperatures(),
        **shares,
    }


def core_temperatures() -> dict[str, float]:
    """The cores' temperatures, where the platform has sensors: most virtual machines have none."""
    read_sensors: Callable[[], Mapping[str, Any]] = getattr(psutil, "sensors_temperatures", dict)
    sensors = read_sensors()
    return {f"CPU_C/{each.label}": each.current for each in sensors.get("coretemp", ())}
