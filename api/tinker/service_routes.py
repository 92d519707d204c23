"""The routes of the service itself and of clients' sessions. Entry point: make_routes."""

from collections.abc import Mapping
from functools import partial
from typing import Any, NoReturn

from api.body.json_body import read_struct
from api.hooks.tuning_access import current_service
from api.openapi.operation import Operation
from api.tinker.bodies import MAX_LABEL, CreateSession, Empty, SessionBody, check_length, to_metadata
from api.tinker.errors import NotServed
from api.tinker.loss_aliases import LossAliases, alias_warning
from api.tinker.tinker_route import TinkerRoute, require_runs
from inference.models import Models
from settings.groups import ServerSettings

MAX_CHUNK_DATA, MAX_CHUNK_BYTES = 1024, 5_000_000  # of one forward_backward, as the client's own
DYNAMIC_CONFIG = {"refresh_interval_sec": 300, "sample_cancel_enabled": True}
NOT_SERVED = {
    "/copy_weights": "a key of this server reads every checkpoint: name it by its path",
    "/create_custom_loss": "use forward_backward_custom, which computes the loss in the client",
}
HEALTH = Operation("Check that the process responds")
CAPABILITIES = Operation("List the models that can be trained")
CONFIG = Operation("Show the client's limits", body=Empty)
SHOW_DYNAMIC_CONFIG = Operation("Show the settings that a client fetches again and again", body=Empty)
TELEMETRY = Operation("Accept, and drop, what a client measures", body=Empty)
CREATE_SESSION = Operation("Begin a session", body=CreateSession)
HEARTBEAT = Operation("Keep a session alive", body=SessionBody)
FINISH = Operation("Close a session", "Its runs are parked, its snapshots removed.", body=Empty)


def make_routes(models: Models, settings: ServerSettings, aliases: LossAliases) -> tuple[TinkerRoute, ...]:
    config = client_config(settings)
    return (
        TinkerRoute("GET", "/healthz", health, HEALTH),
        TinkerRoute("GET", "/get_server_capabilities", partial(capabilities, models), CAPABILITIES),
        TinkerRoute("POST", "/client/config", lambda: config, CONFIG),
        TinkerRoute("POST", "/client/dynamic_config", lambda: DYNAMIC_CONFIG, SHOW_DYNAMIC_CONFIG),
        TinkerRoute("POST", "/telemetry", accept_telemetry, TELEMETRY),
        TinkerRoute("POST", "/create_session", partial(create_session, aliases), CREATE_SESSION),
        TinkerRoute("POST", "/session_heartbeat", heartbeat, HEARTBEAT),
        TinkerRoute("POST", "/sessions/<session_id>/finish", finish, FINISH),
        *(refusing_route(path, fix) for path, fix in NOT_SERVED.items()),
    )


def refusing_route(path: str, fix: str) -> TinkerRoute:
    operation = Operation(f"Answers 400: {fix}", refuses=True)
    return TinkerRoute("POST", path, partial(refuse, path[1:], fix), operation)


def capabilities(models: Models) -> dict[str, Any]:
    return {"supported_models": supported_models(models)}


def client_config(settings: ServerSettings) -> Mapping[str, Any]:
    """A chunk fits into the largest body, also as JSON."""
    return {
        "fwdbwd_max_chunk_len": MAX_CHUNK_DATA,
        "fwdbwd_max_chunk_bytes_count": min(MAX_CHUNK_BYTES, settings.max_body_bytes // 2),
        "proto_compress_fwdbwd": False,
        "sample_use_retrieve_futures": True,
        "sample_join_sampling_session": True,
        "custom_loss_server_side": False,
        "pjwt_auth_enabled": False,
    }


def supported_models(models: Models) -> list[dict[str, Any]]:
    can_train = current_service() is not None and models.own.backend.adapters() is not None
    return [
        {
            "model_name": served.card.name,
            "max_context_length": served.card.info.context,
            "trainable": can_train,
            "sampleable": True,
        }
        for served in models
        if served.card.adapter is None and served.backend is models.own.backend
    ]


def health() -> dict[str, str]:
    return {"status": "ok"}


def accept_telemetry() -> dict[str, str]:
    return {"status": "accepted"}


def create_session(aliases: LossAliases) -> dict[str, str]:
    body = read_struct(CreateSession)
    check_length("display_name", len(body.display_name or ""), MAX_LABEL)
    check_length("sdk_version", len(body.sdk_version), MAX_LABEL)
    session_id = require_runs().create_session(
        to_metadata(body.user_metadata), body.display_name, body.sdk_version
    )
    warning = alias_warning(aliases)
    reply = {"type": "create_session", "session_id": session_id}
    return reply | ({"warning_message": warning} if warning else {})


def heartbeat() -> dict[str, str]:
    require_runs().heartbeat(read_struct(SessionBody).session_id)
    return {"type": "session_heartbeat"}


def finish(session_id: str) -> dict[str, str]:
    require_runs().finish(session_id)
    return {}


def refuse(name: str, fix: str) -> NoReturn:
    raise NotServed(name, fix)
