"""HTTP requests to a server's files and jobs, with its refusals as one line."""

import secrets
from pathlib import Path
from typing import Any, BinaryIO

import requests

TIMEOUT_S = 600


class RefusedRequest(Exception):
    """The server or this program refuses; the message says why."""


class ServerClient:
    """Sends requests to one server.

    verify: check the certificate, if the URL is https.
    """

    def __init__(self, url: str, api_key: str | None, verify: bool) -> None:
        self._url = url.rstrip("/")
        self._session = requests.Session()
        self._session.verify = verify
        if api_key:
            self._session.headers["Authorization"] = f"Bearer {api_key}"

    def get(self, path: str) -> dict[str, Any]:
        return self._send("GET", path)

    def post(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        return self._send("POST", path, json=body)

    def delete(self, path: str) -> dict[str, Any]:
        return self._send("DELETE", path)

    def upload(self, path: Path) -> str:
        """Upload rows to train on, as a stream. Returns the id of the file."""
        with path.open("rb") as file:
            file_form = FileForm(file, path.name)
            headers = {"Content-Type": file_form.content_type}
            try:
                return str(self._send("POST", "/v1/files", data=file_form, headers=headers)["id"])
            except RefusedRequest as error:
                raise RefusedRequest(f"{path}: {error}") from None

    def _send(self, method: str, path: str, **options: Any) -> dict[str, Any]:
        """Raises RefusedRequest for an error status, and requests.RequestException."""
        response = self._session.request(method, self._url + path, timeout=TIMEOUT_S, **options)
        if not response.ok:
            raise RefusedRequest(refusal(response))
        value: dict[str, Any] = response.json()
        return value


def refusal(response: requests.Response) -> str:
    """The message of an error response."""
    try:
        return str(response.json()["error"]["message"])
    except (ValueError, KeyError, TypeError):
        return f"status {response.status_code}: {response.text[:300]}"


class FileForm:
    """A multipart form with the purpose fine-tune and a file, which is read as it is sent."""

    def __init__(self, file: BinaryIO, filename: str) -> None:
        boundary = secrets.token_hex(16)
        name = filename.replace('"', "%22")
        fields = (
            f'--{boundary}\r\nContent-Disposition: form-data; name="purpose"\r\n\r\nfine-tune\r\n'
            f'--{boundary}\r\nContent-Disposition: form-data; name="file"; filename="{name}"\r\n'
            "Content-Type: application/jsonl\r\n\r\n"
        )
        self.content_type = f"multipart/form-data; boundary={boundary}"
        self._readers: list[bytes | BinaryIO] = [fields.encode(), file, f"\r\n--{boundary}--\r\n".encode()]
        file_size = file.seek(0, 2)
        file.seek(0)
        self._num_bytes = file_size + sum(
            len(reader) for reader in self._readers if isinstance(reader, bytes)
        )

    def __len__(self) -> int:
        return self._num_bytes

    def read(self, size: int = -1) -> bytes:
        """The next bytes, up to `size` or a few more; empty at the end."""
        while self._readers:
            reader = self._readers[0]
            data = reader if isinstance(reader, bytes) else reader.read(size)
            if isinstance(reader, bytes) or not data:
                self._readers.pop(0)
            if data:
                return data
        return b""
