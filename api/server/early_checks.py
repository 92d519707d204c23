"""What is decided by the head of a request, before its body is read or the app runs."""

from dataclasses import dataclass

from api.hooks.api_keys import KeyCheck
from api.hooks.body_limits import BodyLimit
from api.hooks.concurrency_limit import ReservePermit


@dataclass(frozen=True, slots=True)
class EarlyChecks:
    """Each gets a method and a path.

    body_limit      the largest body, in bytes
    reserve_permit  a permit, or why the request is refused before its body is parsed; None: it needs none
    check_key       why a request with a large body is refused before its body is read; None: it is not
    """

    body_limit: BodyLimit
    reserve_permit: ReservePermit = lambda method, path, num_bytes: None
    check_key: KeyCheck = lambda method, path, headers: None
