"""Operation: the request and response of a route, defined next to the route and read by document.py.

Knows types and texts. Does not know Flask or OpenAPI.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

AnyView = TypeVar("AnyView", bound=Callable[..., Any])


@dataclass(frozen=True, slots=True)
class Operation:
    """One route. A type is one that msgspec has a schema for, or a union of such types.

    summary      one line: what the route does
    description  further details
    body         type of the request's JSON; None: the request has no JSON body
    response     type of the response's JSON; None: the response has no JSON body
    stream       media types of a streamed response
    media_type   media type of a response that is not JSON
    error        type of every error's JSON
    query        query parameter -> its meaning
    refuses      every request gets an error; the summary has the reason
    body_limit   largest body of a request, in bytes; 0: MAX_BODY_MB
    form_data    type of the request's multipart/form-data; None: the request has no form
    takes_permit each request takes a permit (concurrency_limit.py), and is refused with a status
    """

    summary: str
    description: str = ""
    body: Any = None
    response: Any = dict[str, Any]
    stream: tuple[str, ...] = ()
    media_type: str = ""
    error: Any = dict[str, Any]
    query: Mapping[str, str] = field(default_factory=dict)
    refuses: bool = False
    body_limit: int = 0
    takes_permit: bool = False
    form_data: Any = None


def attach_operation(view: AnyView, operation: Operation) -> AnyView:
    """Set `operation` on `view` and return `view`; wrap a bound method in functools.partial first."""
    view.operation = operation  # type: ignore[attr-defined]
    return view


def operation_of(view: Callable[..., Any]) -> Operation | None:
    return getattr(view, "operation", None)
