"""Downloads of checkpoints, by signed URLs that need no key for an hour. Entry point: make_routes.

The signature covers the checkpoint, the file and the time. A restart makes all URLs invalid.
"""

import hashlib
import hmac
import secrets
import tarfile
import tempfile
import time
from functools import partial
from pathlib import Path
from typing import Any

from flask import Response, redirect, request
from werkzeug.http import http_date

from api.body.file_body import FileBody
from api.errors import Forbidden
from api.openapi.operation import Operation
from api.tinker.listing_routes import CHECKPOINT, path_of, time_json
from api.tinker.tinker_route import PREFIX, TinkerRoute, require_runs
from inference.errors import BadRequest, NotFound, short
from tuning.runs.paths import parse_path

EXTERNAL = "external_weights"
ARCHIVE = "checkpoint.tar"
DOWNLOADS = "/downloads"
VALID_S = 3600
BINARY = "application/octet-stream"


def make_routes() -> tuple[TinkerRoute, ...]:
    secret = secrets.token_bytes(32)
    return (
        TinkerRoute(
            "GET",
            f"{CHECKPOINT}/external_weights_urls",
            partial(list_urls, secret),
            Operation("List the URLs of an external checkpoint's files"),
        ),
        TinkerRoute(
            "GET",
            f"{CHECKPOINT}/archive",
            partial(redirect_to_archive, secret),
            Operation("Redirect to a tar file of a checkpoint"),
        ),
        TinkerRoute(
            "GET",
            f"{DOWNLOADS}/<expires>/<signature>/<run_id>/<kind>/<name>/<file>",
            partial(download, secret),
            Operation("Download a file by its signed URL", media_type=BINARY),
        ),
    )


def list_urls(secret: bytes, run_id: str, kind: str, name: str) -> dict[str, Any]:
    if kind != EXTERNAL:
        raise BadRequest("checkpoint", f"must be {EXTERNAL}: save it with save_weights_external", kind)
    path, expires = path_of(run_id, kind, name), int(time.time()) + VALID_S
    urls = {file.name: signed_url(secret, path, file.name, expires) for file in files_of(path)}
    return {"urls": urls, "expires": time_json(expires)}


def redirect_to_archive(secret: bytes, run_id: str, kind: str, name: str) -> Any:
    path, expires = path_of(run_id, kind, name), int(time.time()) + VALID_S
    require_runs().checkpoint(path)
    response = redirect(signed_url(secret, path, ARCHIVE, expires))
    response.headers["Expires"] = http_date(expires)
    return response


def download(
    secret: bytes, expires: str, signature: str, run_id: str, kind: str, name: str, file: str
) -> Response:
    path = path_of(run_id, kind, name)
    is_signed = hmac.compare_digest(signature.encode(), sign(secret, path, file, expires).encode())
    if not is_signed or int(expires) < time.time():
        raise Forbidden("this URL is invalid or has expired: ask for a new one")
    return send_archive(path) if file == ARCHIVE else send_file(path, file)


def send_file(path: str, name: str) -> Response:
    file = next((file for file in files_of(path) if file.name == name), None)
    if file is None:
        raise NotFound(f"the checkpoint has no file {short(name)}")
    return Response(FileBody(file), content_type=BINARY, direct_passthrough=True)


def send_archive(path: str) -> Response:
    """A tar file, which has no name on the disk any more when it is sent."""
    with tempfile.TemporaryDirectory(prefix="hearth-") as folder:
        archive = Path(folder) / ARCHIVE
        with tarfile.open(archive, "w") as tar:
            for file in files_of(path):
                tar.add(file, file.name)
        body = FileBody(archive)
    return Response(body, content_type=BINARY, direct_passthrough=True)


def files_of(path: str) -> list[Path]:
    """The files of a checkpoint. Raises BadRequest and NotFound."""
    return sorted(file for file in require_runs().checkpoint_folder(path).iterdir() if file.is_file())


def signed_url(secret: bytes, path: str, file: str, expires: int) -> str:
    run_id, kind, name = parse_path(path)
    signature = sign(secret, path, file, str(expires))
    below = f"{PREFIX}{DOWNLOADS}/{expires}/{signature}/{run_id}/{kind}/{name}/{file}"
    return request.root_url.rstrip("/") + below


def sign(secret: bytes, path: str, file: str, expires: str) -> str:
    return hmac.new(secret, f"{expires}\n{path}\n{file}".encode(), hashlib.sha256).hexdigest()
