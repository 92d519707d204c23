"""The generating routes of TGI: one prompt, streamed or whole.

Knows what each route takes and gives; how bodies are understood and replies worded is told elsewhere.
"""

from dataclasses import dataclass, replace

from flask import Response

from api.settings import AppSettings
from api.stream import SSE, answer
from api.tgi.bodies import CompatibleBody, GenerateBody
from api.tgi.errors import broken
from api.tgi.headers import Meter
from api.tgi.info import compute_type, full_text
from api.tgi.last import Marked
from api.tgi.replies import StreamWriter, WholeWriter
from api.tgi.requests import generation, read, shown
from api.tgi.validation import reworded
from inference.backend import Backend, Stream
from inference.errors import ServerError
from inference.types import GenerationRequest

FRAMING = replace(SSE, in_band=True)


@dataclass(frozen=True, slots=True)
class Inference:
    backend: Backend
    settings: AppSettings

    def generate(self) -> Response:
        return self._whole(read(GenerateBody), full=False)

    def generate_stream(self) -> Response:
        return self._streamed(read(GenerateBody), full=False)

    def compatible(self) -> Response:
        """POST /, where the body says whether the answer is streamed; a whole one is in a list."""
        body, full = read(CompatibleBody), full_text(self.backend.info())
        return self._streamed(body, full) if body.stream else self._whole(body, full, listed=True)

    def submit(self, request: GenerationRequest) -> Stream:
        """Raises ServerError, in TGI's words."""
        try:
            return self.backend.generate(request)
        except ServerError as error:
            raise reworded(error, request, self.backend.info().context) from error

    def _whole(self, body: GenerateBody, full: bool, listed: bool = False) -> Response:
        meter = self._meter(body)
        request = self._request(body, streams=False)
        stream = self.submit(request)
        meter.submitted()
        writer = WholeWriter(shown(body, self.settings, full_text=full), request.n, listed)
        return answer(stream, writer, None, request.n, lambda: meter.whole(writer.best))

    def _streamed(self, body: GenerateBody, full: bool) -> Response:
        """Once the body was read every error is told in the stream."""
        meter = self._meter(body)
        try:
            stream = self.submit(self._request(body, streams=True))
        except ServerError as error:
            return in_band(error, meter)
        writer = StreamWriter(shown(body, self.settings, full_text=full))
        return answer(Marked(stream), writer, FRAMING, headers=meter.streamed)

    def _meter(self, body: GenerateBody) -> Meter:
        return Meter(compute_type(self.backend.info()), body.inputs)

    def _request(self, body: GenerateBody, *, streams: bool) -> GenerationRequest:
        return generation(body, self.settings, self.backend.info(), streams=streams)


def in_band(error: ServerError, meter: Meter) -> Response:
    """A stream that tells an error and nothing else."""
    body = b"".join(map(FRAMING.encode, broken(error)))
    headers = {"Cache-Control": "no-store", "X-Accel-Buffering": "no", **meter.streamed()}
    return Response(body, 200, headers, content_type=FRAMING.mimetype)
