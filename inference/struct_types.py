"""Makes types ready for msgspec before several threads use them.

msgspec (0.22) learns the fields of a class when it first decodes one, and lets other threads run meanwhile:
if one of them decodes the class too, it reads what is not there yet, and the process ends with SIGSEGV.
"""

import threading
from typing import Any, TypeVar

import msgspec

T = TypeVar("T")

_lock = threading.Lock()
_ready = set[Any]()


def ready(struct_type: type[T]) -> type[T]:
    """The type, of which msgspec knows all fields, those of the types inside included."""
    if struct_type not in _ready:
        with _lock:
            msgspec.json.Decoder(struct_type)
            _ready.add(struct_type)
    return struct_type
