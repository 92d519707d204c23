"""The HTTP client of one upstream: requests to its address alone, with its key, on the server's event loop.

No redirect is followed, no cookie is kept but that of a login, and nothing compressed is accepted.
"""

import asyncio
import os
import socket
import ssl
import urllib.request
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any
from urllib.parse import urlsplit

import aiohttp

from inference.remote.failures import UpstreamFailure, broken, from_status, too_large, unreachable
from inference.remote.form_login import log_in
from inference.untrusted_json import decode_json
from settings.remote_model import RemoteModel

IDLE_CONNECTION_S = 4  # uvicorn, which many servers use, closes an idle connection after 5
MAX_ERROR_BYTES = 64 << 10
MAX_DESCRIPTION_BYTES = 4 << 20  # of what a server says about itself: a list of thousands of models
MAX_DESCRIPTION_LISTS = 200_000  # and objects: to decode more would hold up other answers
MAX_DOCUMENT_BYTES = 32 << 20
MAX_MESSAGE_BYTES = 1 << 20  # of a WebSocket
CLOSE_TIMEOUT_S = 0.5  # that its server has to confirm that it is closed
MAX_OWN_BYTES = 1 << 30  # of a document from a process that this server has started
MAX_HEADER_BYTES = 64 << 10
UNAUTHORIZED = 401
JSON_HEADERS = {"Content-Type": "application/json", "Accept-Encoding": "identity"}
# The connection was closed or reset before a byte of the response: an idle one that the server had given up.
CLOSED_EARLY = (aiohttp.ServerDisconnectedError, ConnectionResetError)


class HttpClient:
    """Use it on one event loop only, from its first request on.

    Logs in where the server wants it and the model has a login.
    """

    def __init__(self, model: RemoteModel) -> None:
        self.model = model
        self._cookie = ""
        self._logging_in = asyncio.Lock()
        self._headers = {**JSON_HEADERS, **model.server.headers, **model.headers}
        self._session: aiohttp.ClientSession | None = None

    def url(self, path: str) -> str:
        query = self.model.server.query
        return f"{self.model.server.url}{path}" + (f"?{query}" if query else "")

    def post(self, path: str, body: bytes) -> AbstractAsyncContextManager[aiohttp.ClientResponse]:
        """The response to `body`, with status 200. Leaving it before its end closes the connection.

        Raises UpstreamFailure.
        """
        return self._exchange("POST", path, body)

    def get(self, path: str) -> AbstractAsyncContextManager[aiohttp.ClientResponse]:
        """As post, without a body."""
        return self._exchange("GET", path, None)

    @asynccontextmanager
    async def converse(self, path: str) -> AsyncIterator[aiohttp.ClientWebSocketResponse]:
        """A WebSocket. Leaving it closes the connection. Raises UpstreamFailure."""
        login, url = self.model.server.login, self.url(path)
        if login and not self._cookie:
            await self._log_in(instead_of="")
        headers = {"Cookie": self._cookie} if self._cookie else None
        try:
            socket = await self._open().ws_connect(
                url,
                headers=headers,
                proxy=self._proxy(url),
                max_msg_size=MAX_MESSAGE_BYTES,
                timeout=aiohttp.ClientWSTimeout(ws_close=CLOSE_TIMEOUT_S),
            )
        except aiohttp.WSServerHandshakeError as error:
            raise from_status(self.model.name, error.status, error.headers or {}, b"") from None
        except (aiohttp.ClientError, OSError, TimeoutError) as error:
            raise self._unreachable(error) from None
        try:
            yield socket
        finally:
            await socket.close()

    async def get_json(self, url: str, max_bytes: int = MAX_DESCRIPTION_BYTES) -> Any:
        """What the upstream says about itself at an address, as JSON. Raises UpstreamFailure."""
        body = await self.get_description(url, max_bytes)
        if body.count(b"[") + body.count(b"{") > MAX_DESCRIPTION_LISTS:
            reason = f"it describes itself in more than {MAX_DESCRIPTION_LISTS} lists and objects"
            raise broken(self.model.name, reason)
        try:
            return decode_json(body)
        except ValueError:
            raise broken(self.model.name, "no JSON") from None

    async def get_description(self, url: str, max_bytes: int = MAX_DESCRIPTION_BYTES) -> bytes:
        """As `get_json`, before it is decoded."""
        try:
            response = await self._send("GET", url, None)
            async with response:
                await self._check(response)
                return await self.read_description(response, max_bytes)
        except (aiohttp.ClientError, OSError, TimeoutError) as error:
            raise self._unreachable(error) from None

    async def read_document(self, response: aiohttp.ClientResponse) -> bytes:
        """The whole body. Raises UpstreamFailure for one that is too large."""
        limit = MAX_OWN_BYTES if self.model.is_own else MAX_DOCUMENT_BYTES
        body = await read_body(response, limit + 1)
        if len(body) > limit:
            raise too_large(self.model.name, limit)
        return body

    async def read_description(
        self, response: aiohttp.ClientResponse, max_bytes: int = MAX_DESCRIPTION_BYTES
    ) -> bytes:
        """The whole of what the upstream says about itself. Raises UpstreamFailure beyond `max_bytes`."""
        body = await read_body(response, max_bytes + 1)
        if len(body) > max_bytes:
            raise broken(self.model.name, f"it describes itself in more than {max_bytes >> 10} KiB")
        return body

    async def close(self) -> None:
        if self._session is not None:
            await self._session.close()

    @asynccontextmanager
    async def _exchange(
        self, method: str, path: str, body: bytes | None
    ) -> AsyncIterator[aiohttp.ClientResponse]:
        try:
            response = await self._send(method, self.url(path), body)
        except CLOSED_EARLY:
            response = await self._repeat(method, self.url(path), body)
        except (aiohttp.ClientError, OSError, TimeoutError) as error:
            raise self._unreachable(error) from None
        try:
            await self._check(response)
            yield response
        finally:
            response.close() if not response.content.at_eof() else response.release()

    async def _repeat(self, method: str, url: str, body: bytes | None) -> aiohttp.ClientResponse:
        try:
            return await self._send(method, url, body)
        except (aiohttp.ClientError, OSError, TimeoutError) as error:
            raise self._unreachable(error) from None

    async def _send(self, method: str, url: str, body: bytes | None) -> aiohttp.ClientResponse:
        cookie = self._cookie
        response = await self._request(method, url, body, cookie)
        if response.status != UNAUTHORIZED or not self.model.server.login:
            return response
        try:
            if not await self._log_in(instead_of=cookie):
                return response
        except BaseException:
            response.close()
            raise
        response.close()
        return await self._request(method, url, body, self._cookie)

    async def _request(
        self, method: str, url: str, body: bytes | None, cookie: str
    ) -> aiohttp.ClientResponse:
        headers = {"Cookie": cookie} if cookie else None
        return await self._open().request(
            method, url, data=body, headers=headers, allow_redirects=False, proxy=self._proxy(url)
        )

    async def _log_in(self, instead_of: str) -> bool:
        """Whether there is another cookie than the one that the server has refused."""
        server = self.model.server
        async with self._logging_in:
            if self._cookie == instead_of and server.login:
                self._cookie = await log_in(self._open(), server.url, server.login, self._proxy(server.url))
        return self._cookie not in ("", instead_of)

    def _proxy(self, url: str) -> str | None:
        return None if self.model.is_own else self.model.proxy or find_proxy(url)

    def _open(self) -> aiohttp.ClientSession:
        """The session, which the first request opens."""
        if self._session is None:
            self._session = self._open_session()
        return self._session

    def _open_session(self) -> aiohttp.ClientSession:
        timeout = aiohttp.ClientTimeout(total=None, sock_connect=self.model.timeouts.connect)
        return aiohttp.ClientSession(
            headers=self._headers,
            timeout=timeout,
            connector=self._connector(),
            cookie_jar=aiohttp.DummyCookieJar(),
            auto_decompress=False,
            max_field_size=MAX_HEADER_BYTES,
        )

    def _connector(self) -> aiohttp.BaseConnector:
        if self.model.socket:
            return aiohttp.UnixConnector(self.model.socket, limit=0, keepalive_timeout=IDLE_CONNECTION_S)
        context = ssl.create_default_context()
        if self.model.ca:
            context.load_verify_locations(self.model.ca)
        return aiohttp.TCPConnector(limit=0, keepalive_timeout=IDLE_CONNECTION_S, ssl=context)

    async def _check(self, response: aiohttp.ClientResponse) -> None:
        """Raise UpstreamFailure unless the response has the status 200 and is not compressed."""
        if response.headers.get("Content-Encoding", "identity") != "identity":
            raise broken(self.model.name, "it is compressed, which was not asked for")
        if response.status != 200:
            body = await read_body(response, MAX_ERROR_BYTES)
            raise from_status(self.model.name, response.status, response.headers, body)

    def _unreachable(self, error: Exception) -> UpstreamFailure:
        seconds = self.model.timeouts.connect
        reason = f"no connection in {seconds:g} s" if isinstance(error, TimeoutError) else describe(error)
        return unreachable(self.model.name, reason)


async def read_body(response: aiohttp.ClientResponse, limit: int) -> bytes:
    """The first `limit` bytes of the body."""
    body = bytearray()
    async for chunk in response.content.iter_any():
        body += chunk
        if len(body) >= limit:
            break
    return bytes(body[:limit])


def describe(error: Exception) -> str:
    """The reason of a failed connection, without the address."""
    cause = getattr(error, "os_error", None) or error
    number = getattr(cause, "errno", None)
    if isinstance(error, aiohttp.ClientConnectorCertificateError | aiohttp.ClientConnectorSSLError):
        return "its certificate is not trusted"
    if isinstance(cause, socket.gaierror):
        return "the name of its host is unknown"
    # The error's own text has the address.
    return os.strerror(number) if isinstance(number, int) and number > 0 else type(cause).__name__


def find_proxy(url: str) -> str | None:
    """The proxy that HTTPS_PROXY or HTTP_PROXY names, unless NO_PROXY has the host."""
    address = urlsplit(url)
    is_direct = urllib.request.proxy_bypass(address.hostname or "")
    return None if is_direct else urllib.request.getproxies().get(address.scheme)
