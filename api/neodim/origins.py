"""Which web pages may call: any, for the original's playground is a file, whose origin is "null".

Where the settings name origins, those hold for this route as for all others.
"""

from flask import Response, request

from api.cors import HEADERS, NAMES

METHODS = "POST, OPTIONS"


def permit(response: Response) -> Response:
    """Echo the request's Origin, and to a preflight what it asks for."""
    origin = request.headers.get("Origin")
    if not origin:
        return response
    response.vary.add("Origin")
    response.headers["Access-Control-Allow-Origin"] = origin
    if request.method == "OPTIONS":
        asked = request.headers.get("Access-Control-Request-Headers", "")
        response.headers["Access-Control-Allow-Methods"] = METHODS
        response.headers["Access-Control-Allow-Headers"] = asked if NAMES.fullmatch(asked) else HEADERS
        response.headers["Access-Control-Allow-Credentials"] = "true"
    return response
