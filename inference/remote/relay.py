"""Sends one call to a server and relays the events of its response, with limits. On the event loop."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager, suppress

import aiohttp

from inference.events import Event
from inference.link_messages import MEDIA_TYPE as LINK
from inference.metrics.upstream import UpstreamRequestStats
from inference.remote.answer_settings import START_HEADER
from inference.remote.event_stream import EventStreamParser, ServerSentEvent, TooLargeEvent
from inference.remote.failures import UpstreamFailure, broken, late, unreachable
from inference.remote.frames import FrameParser
from inference.remote.http_client import HttpClient
from inference.remote.stream import Emit
from inference.remote.upstreams.upstream_api import AnswerReader, UpstreamCall

MAX_STREAM_BYTES = 256 << 20  # of one response
SLICE_BYTES = 16 << 10  # of an event stream, read before other tasks run: empty lines take the longest
LEAVE_TIMEOUT_S = 2.0  # for a call that is cancelled before it is accepted
DOCUMENT = "application/json"
PARSERS: Mapping[str, type[EventStreamParser] | type[FrameParser]] = {
    "text/event-stream": EventStreamParser,
    LINK: FrameParser,
}

CheckStart = Callable[[str], Awaitable[None]]  # by the START_HEADER of a response; empty: it has none


class Relay:
    """One call, sent once.

    ends_at      loop time at which the request's deadline ends the answers; None: never
    check_start  raises UpstreamFailure if the answer comes from a start of the server that may not answer
    """

    def __init__(
        self,
        client: HttpClient,
        call: UpstreamCall,
        stats: UpstreamRequestStats,
        ends_at: float | None,
        check_start: CheckStart,
    ) -> None:
        self._client = client
        self._call = call
        self._stats = stats
        self._ends_at = ends_at
        self._check_start = check_start
        self._has_events = False
        self._emit: Emit = lambda events: None
        self._has_room: asyncio.Event | None = None

    async def run(self, emit: Emit) -> None:
        """Relay the whole response. Raises UpstreamFailure."""
        self._emit = emit
        reader = self._call.make_reader()
        timeouts = self._client.model.timeouts
        loop = asyncio.get_running_loop()
        first_at = loop.time() + timeouts.connect + timeouts.first
        try:
            async with asyncio.timeout_at(self._earlier(first_at)) as limit:
                if self._call.reply:
                    await self._converse(self._call.reply, reader, limit)
                    return
                async with self._send() as response:
                    await self._check_start(response.headers.get(START_HEADER, ""))
                    await self._read(response, reader, limit)
        except TimeoutError:
            if self._ends_at is not None and loop.time() >= self._ends_at:
                self._pass_on(reader.finish_at_deadline())
                return
            raise late(
                self._client.model.name, timeouts.silence if self._has_events else timeouts.first
            ) from None
        except (aiohttp.ClientError, OSError) as error:
            raise self._interrupted(error) from None
        except TooLargeEvent:
            raise broken(self._client.model.name, "an event that is too large") from None

    async def _converse(
        self, reply: Callable[[bytes], bytes | None], reader: AnswerReader, limit: asyncio.Timeout
    ) -> None:
        """Relay the messages of a WebSocket."""
        num_bytes = 0
        async with self._client.converse(self._call.path) as socket:
            async for message in socket:
                if message.type is not aiohttp.WSMsgType.TEXT:
                    raise broken(self._client.model.name, "a message is no text")
                data = message.data.encode()
                num_bytes += len(data)
                self._check_size(num_bytes)
                if message_back := reply(data):
                    await socket.send_str(message_back.decode())
                self._pass_on(reader.read(ServerSentEvent(b"", data)))
                if reader.is_complete:
                    break
                await self._wait_for_room(limit)
                self._allow_silence(limit)
        self._pass_on(reader.finish())

    @asynccontextmanager
    async def _send(self) -> AsyncIterator[aiohttp.ClientResponse]:
        """The response with the answer."""
        call = self._call
        if call.stream_path is None:
            async with self._client.post(call.path, call.body) as response:
                yield response
            return
        posting = asyncio.ensure_future(self._post_call(call.stream_path))
        try:
            path = await asyncio.shield(posting)
        except asyncio.CancelledError:
            await self._leave(posting)
            raise
        async with self._client.get(path) as response:
            yield response

    async def _post_call(self, stream_path: Callable[[bytes], str]) -> str:
        """Post the call; returns the path of its answer's events."""
        async with self._client.post(self._call.path, self._call.body) as response:
            return stream_path(await self._client.read_document(response))

    async def _leave(self, posting: asyncio.Task[str]) -> None:
        """Open the events of the call and close them: the server ends an answer only if its reader leaves."""
        with suppress(UpstreamFailure, TimeoutError, aiohttp.ClientError, OSError):
            async with asyncio.timeout(LEAVE_TIMEOUT_S):
                async with self._client.get(await posting):
                    pass

    async def _read(
        self, response: aiohttp.ClientResponse, reader: AnswerReader, limit: asyncio.Timeout
    ) -> None:
        if response.content_type == DOCUMENT:
            self._pass_on(reader.read_document(await self._client.read_document(response)))
        elif make_parser := PARSERS.get(response.content_type):
            await self._read_events(response, make_parser(), reader, limit)
        else:
            raise broken(self._client.model.name, f"its type is {response.content_type}")
        self._pass_on(reader.finish())

    async def _read_events(
        self,
        response: aiohttp.ClientResponse,
        parser: EventStreamParser | FrameParser,
        reader: AnswerReader,
        limit: asyncio.Timeout,
    ) -> None:
        num_bytes = 0
        async for data in slices(response.content):
            num_bytes += len(data)
            self._check_size(num_bytes)
            events: list[Event] = []
            for event in parser.feed(data):
                events += reader.read(event)
                if reader.is_complete:
                    self._pass_on(events)
                    return
            self._pass_on(events)
            await self._wait_for_room(limit)
            self._allow_silence(limit)

    def _check_size(self, num_bytes: int) -> None:
        """Raise UpstreamFailure if a response has become too large."""
        if num_bytes > MAX_STREAM_BYTES:
            raise broken(self._client.model.name, f"it has more than {MAX_STREAM_BYTES >> 20} MiB")

    def _allow_silence(self, limit: asyncio.Timeout) -> None:
        """Something has come: the limit until the next event begins again, once there was a first one."""
        if self._has_events:
            silence_s = self._client.model.timeouts.silence
            limit.reschedule(self._earlier(asyncio.get_running_loop().time() + silence_s))

    def _pass_on(self, events: list[Event]) -> None:
        if events:
            if not self._has_events:
                self._has_events = True
                self._stats.record_first_event()
            self._has_room = self._emit(events)

    async def _wait_for_room(self, limit: asyncio.Timeout) -> None:
        """Read on once the client has caught up, at the request's deadline at the latest."""
        if self._has_room is not None:
            limit.reschedule(self._ends_at)
            await self._has_room.wait()

    def _earlier(self, at: float) -> float:
        return at if self._ends_at is None else min(at, self._ends_at)

    def _interrupted(self, error: Exception) -> UpstreamFailure:
        if self._has_events:
            return broken(self._client.model.name, "the connection was closed")
        return unreachable(self._client.model.name, type(error).__name__)


async def slices(content: aiohttp.StreamReader) -> AsyncIterator[bytes]:
    """The bytes as they arrive, at most SLICE_BYTES at a time; other tasks run in between."""
    async for chunk in content.iter_any():
        for begin in range(0, len(chunk), SLICE_BYTES):
            if begin:
                await asyncio.sleep(0)
            yield chunk[begin : begin + SLICE_BYTES]
