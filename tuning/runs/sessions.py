"""The sessions of clients and their sampling sessions: who is there, and what samples are asked of.

Called from any thread; what must survive is in the database.
"""

import secrets
import time
from collections.abc import Mapping
from functools import partial
from typing import ClassVar

from inference.database import Database
from inference.errors import BadRequest, ServerError
from tuning.runs.store import SAMPLERS, SESSIONS, change, latest, require
from tuning.runs.types import ClientSession, SamplingSession

NOTE_EVERY_S = 3600  # so often, a sign of life is written to the database


class SessionFinished(ServerError):
    status: ClassVar[int] = 410

    def __init__(self, id: str) -> None:
        super().__init__(f"session {id} is finished: create a new one")


class Sessions:
    """Who was there when. Times are those of time.monotonic() since the start of the server."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._started = time.monotonic()
        self._signs: dict[str, float] = {}  # of life, by session
        self._uses: dict[str, float] = {}  # by sampling session

    def create(self, user_metadata: Mapping[str, str], display_name: str | None, sdk_version: str) -> str:
        session = ClientSession(
            id=secrets.token_hex(8),  # no secret: keys protect the runs
            created=int(time.time()),
            user_metadata=user_metadata,
            display_name=display_name,
            sdk_version=sdk_version,
        )
        self._database.run(SESSIONS.insert, session)
        self._signs[session.id] = time.monotonic()
        return session.id

    def heartbeat(self, id: str) -> None:
        """Raises NotFound, and SessionFinished once it is finished."""
        session = self.get(id)
        if session.is_finished:
            raise SessionFinished(id)
        self._note_sign(session)

    def require_open(self, id: str) -> ClientSession:
        """Raises NotFound, and BadRequest once it is finished."""
        session = self.get(id)
        self.require_unfinished(id)
        self._note_sign(session)
        return session

    def require_unfinished(self, id: str) -> None:
        """Raises BadRequest once the session is finished. No effect on one that is unknown."""
        session: ClientSession | None = self._database.run(SESSIONS.find, id)
        if session is not None and session.is_finished:
            raise BadRequest("session_id", "is finished: create a new session", id)

    def finish(self, id: str) -> None:
        """Raises NotFound."""
        self._database.run(partial(change, is_finished=True), SESSIONS, id)
        self._signs.pop(id, None)

    def remove(self, id: str) -> None:
        """Delete the session and its sampling sessions. No effect on one that is unknown."""
        samplers: list[SamplingSession] = self._database.run(latest, SAMPLERS, id)
        for sampler in samplers:
            self.remove_sampler(sampler.id)
        self._database.run(SESSIONS.delete, id)
        self._signs.pop(id, None)

    def remove_sampler(self, sampler_id: str) -> None:
        self._database.run(SAMPLERS.delete, sampler_id)
        self._uses.pop(sampler_id, None)

    def get(self, id: str) -> ClientSession:
        """Raises NotFound."""
        session: ClientSession = self._database.run(require, SESSIONS, id)
        return session

    def list(self) -> "list[ClientSession]":
        """Newest first."""
        return self._database.run(latest, SESSIONS)

    def silent_s(self, id: str) -> float:
        """Seconds since the session's last sign of life."""
        return time.monotonic() - self._signs.get(id, self._started)

    def unused_s(self, sampler_id: str) -> float:
        """Seconds since the last use of a sampling session."""
        return time.monotonic() - self._uses.get(sampler_id, self._started)

    def mark_used(self, sampler_id: str) -> None:
        self._uses[sampler_id] = time.monotonic()

    def _note_sign(self, session: ClientSession) -> None:
        self._signs[session.id] = time.monotonic()
        now = int(time.time())
        if max(session.created, session.last_sign) <= now - NOTE_EVERY_S:
            self._database.run(partial(change, last_sign=now), SESSIONS, session.id)
