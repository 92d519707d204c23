"""The id of this server's start, in the head of every response and in the index of routes.

Other servers of this project notice by it that this one has restarted, perhaps with other settings.
"""

import secrets

from flask import Flask, Response, current_app

from inference.remote.answer_settings import START_HEADER

START_ID = "start_id"  # key in app.extensions


def install(app: Flask) -> None:
    app.extensions[START_ID] = start_id = secrets.token_hex(8)

    def add_header(response: Response) -> Response:
        response.headers[START_HEADER] = start_id
        return response

    app.after_request(add_header)


def current_start_id() -> str:
    """The id of the running app."""
    start_id: str = current_app.extensions[START_ID]
    return start_id
