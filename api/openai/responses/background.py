"""Responses that are generated in the background: the client gets the id at once, and polls.

Each has a thread that reads its stream, and a permit of the concurrency limit until it ends. A server that
stops leaves them unfinished: the store calls them failed at the next start.
"""

import logging
import threading
from collections.abc import Callable

from flask import current_app

from api.openai.errors import InvalidParameter
from api.openai.responses.protocol import ResponsesRequest, ResponsesResponse
from api.openai.responses.recording import Recorder
from api.openai.responses.writer import ResponseWriter
from api.response import StreamEndedEarly
from inference.backend import Stream
from inference.errors import Internal, ServerError

RUNS = "background_responses"  # key in app.extensions: BackgroundRuns

log = logging.getLogger(__name__)

Runs = dict[tuple[str, str], "BackgroundRun"]  # by owner and id of the response


def check_background(body: ResponsesRequest, is_stored: bool) -> None:
    """Raises InvalidParameter for a request in the background that cannot be polled."""
    if not body.background:
        return
    if body.stream:
        raise InvalidParameter(
            "stream is not supported with background: leave it out, and poll GET /v1/responses/{id}", "stream"
        )
    if not is_stored:
        reason = "" if body.store is False else ": this server stores nothing (RESPONSES_STORE)"
        raise InvalidParameter(f"background can only be used when `store` is true{reason}", "background")


def current_runs() -> Runs:
    runs: Runs = current_app.extensions.setdefault(RUNS, {})
    return runs


class BackgroundRun:
    """One response in the background.

    release_permit  called when it has ended
    """

    def __init__(
        self,
        stream: Stream,
        writer: ResponseWriter,
        recorder: Recorder,
        release_permit: Callable[[], None],
        runs: Runs,
    ) -> None:
        self._stream = stream
        self._writer = writer
        self._recorder = recorder
        self._release_permit = release_permit
        self._runs = runs
        self._key = (recorder.owner, writer.id)

    def start(self) -> ResponsesResponse:
        """Store the response and begin to generate it. Returns it as it is then. Raises StoreFailed."""
        try:
            response = self.response()
            self._recorder.begin(response)
        except ServerError:
            self._stream.close()
            self._release_permit()
            raise
        self._runs[self._key] = self
        threading.Thread(target=self._run, name="background-response", daemon=True).start()
        return response

    def response(self) -> ResponsesResponse:
        """The response as far as it is generated."""
        return self._writer.response()

    def cancel(self) -> None:
        if not self._writer.end:
            self._writer.cancel()
            self._stream.close()

    def _run(self) -> None:
        """If the end cannot be stored, the run stays in memory, where the client finds it."""
        try:
            self._generate()
            self._recorder.finish(self.response())
            self._runs.pop(self._key, None)
        except ServerError as error:
            log.warning("response=%s was not stored: %s", self._writer.id, error.message)
        except Exception:
            log.exception("response=%s was not stored", self._writer.id)
        finally:
            self._release_permit()

    def _generate(self) -> None:
        """Read the stream to its end. An error becomes the response's."""
        try:
            for event in self._stream:
                self._writer.chunk(event)
            if not (self._writer.end or self._writer.is_cancelled):
                raise StreamEndedEarly("the stream ended before its answer")
        except ServerError as error:
            self._writer.error_in_stream(error)
        except Exception:
            log.exception("response=%s failed", self._writer.id)
            self._writer.error_in_stream(Internal("the response could not be generated"))
