"""The paths of checkpoints, tinker://RUN/KIND/NAME, and the ids of runs, sampling sessions and promises.

What a client sends is parsed here, and never becomes a path of the file system.
"""

import re
from typing import NamedTuple, get_args

from inference.errors import BadRequest
from tuning.runs.types import CheckpointKind

SCHEME = "tinker://"
NAME = re.compile(r"(?!.*\.\.)[A-Za-z0-9][A-Za-z0-9._-]{0,127}")  # adapters may not have ".." either
NAME_RULE = "1 to 128 letters, digits and ._-, the first a letter or digit, and no '..'"
KINDS: tuple[CheckpointKind, ...] = get_args(CheckpointKind)
MAX_NUMBER = 10**9


class CheckpointPath(NamedTuple):
    run_id: str
    kind: CheckpointKind
    name: str

    def __str__(self) -> str:
        return f"{SCHEME}{self.run_id}/{self.kind}/{self.name}"


def parse_path(path: str) -> CheckpointPath:
    """Raises BadRequest."""
    run_id, kind, name = [*path.removeprefix(SCHEME).split("/"), "", "", ""][:3]
    is_whole = path.startswith(SCHEME) and path.count("/") == SCHEME.count("/") + 2
    if not is_whole or kind not in KINDS or not run_id or not NAME.fullmatch(name):
        rule = f"must be {SCHEME}RUN/KIND/NAME: a KIND among {', '.join(KINDS)}; the NAME has {NAME_RULE}"
        raise BadRequest("path", rule, path)
    return CheckpointPath(run_id, kind, name)


def check_checkpoint_name(name: str) -> None:
    """Raises BadRequest."""
    if not NAME.fullmatch(name):
        raise BadRequest("path", f"must have {NAME_RULE}", name)


def run_id_of(session_id: str, model_seq_id: int) -> str:
    return f"{session_id}:train:{check_number('model_seq_id', model_seq_id)}"


def sampler_id_of(session_id: str, sampling_session_seq_id: int) -> str:
    return f"{session_id}:sample:{check_number('sampling_session_seq_id', sampling_session_seq_id)}"


def session_of(id: str) -> str:
    """The session of a run or a sampling session."""
    return id.partition(":")[0]


def check_number(field: str, number: int) -> int:
    """Raises BadRequest."""
    if not 0 <= number < MAX_NUMBER:
        raise BadRequest(field, f"must be at least 0 and below {MAX_NUMBER}", number)
    return number
