"""Remembers on disk the code that dataclasses compile for the methods of their classes.

Six hundred classes of the libraries and of this project have 2,700 such methods, and compiling them takes a
tenth of the imports' time. The same text compiles to the same code under one version of Python.
"""

import contextlib
import dataclasses
import hashlib
import marshal
import sys
from functools import cache
from types import CodeType
from typing import Any

from inference.process.cache_folder import cache_folder, read_with_digest, write_with_digest

FILE_NAME = "dataclass_methods"
MAX_METHODS = 10_000  # of all versions of all classes that were seen; with more, the file is started again
DIGEST_BYTES = 16


class RememberedCode:
    """exec() for the module dataclasses, with the code of an earlier start where it is the same."""

    def __init__(self, codes: dict[bytes, CodeType]) -> None:
        self.codes = codes
        self.has_new = False

    def exec(self, text: str, names: dict[str, Any], results: dict[str, Any]) -> None:
        """As the built-in function."""
        digest = hashlib.blake2b(text.encode(errors="surrogatepass"), digest_size=DIGEST_BYTES).digest()
        code = self.codes.get(digest)
        if code is None:
            code = self.codes[digest] = compile(text, "<string>", "exec", dont_inherit=True)
            self.has_new = True
        exec(code, names, results)

    def save(self) -> None:
        """Write the code for the next start if this one compiled any."""
        if not self.has_new:
            return
        self.has_new = False
        with contextlib.suppress(OSError, RuntimeError):
            content = marshal.dumps((sys.version, dict(self.codes)))
            write_with_digest(cache_folder() / FILE_NAME, content)


@cache
def remembered_code() -> RememberedCode:
    """The code of earlier starts; none if its file cannot be read."""
    with contextlib.suppress(OSError, RuntimeError, EOFError, ValueError, TypeError):
        version, codes = marshal.loads(read_with_digest(cache_folder() / FILE_NAME))
        if version == sys.version and len(codes) < MAX_METHODS:
            return RememberedCode(codes)
    return RememberedCode({})


def remember_dataclass_methods() -> None:
    """Let dataclasses that are defined from now on use the code of earlier starts."""
    vars(dataclasses)["exec"] = remembered_code().exec  # hides the built-in function from that module
