"""What a route takes and gives, said beside the route: the API's document is made of this.

Knows types and words, nothing of Flask or of how the document is written.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

View = TypeVar("View", bound=Callable[..., Any])


@dataclass(frozen=True, slots=True)
class Operation:
    """One route. Types are what msgspec knows: structs, dict[str, Any], lists of them.

    summary  one line; `about` says more where that is needed
    body     of the request's JSON; None: there is none
    answer   of the answer's JSON; None: the answer has no body
    stream   media types of an answer that is sent in pieces
    media    media type of an answer that is not JSON
    error    of every error's JSON
    query    what the address may carry behind its ?, and what it means
    """

    summary: str
    about: str = ""
    body: Any = None
    answer: Any = dict[str, Any]
    stream: tuple[str, ...] = ()
    media: str = ""
    error: Any = dict[str, Any]
    query: Mapping[str, str] = field(default_factory=dict)


def described(view: View, operation: Operation) -> View:
    """`view`, with its operation where `of` finds it. Not for bound methods, which take no attribute."""
    view.operation = operation  # type: ignore[attr-defined]
    return view


def of(view: Callable[..., Any]) -> Operation | None:
    return getattr(view, "operation", None)
