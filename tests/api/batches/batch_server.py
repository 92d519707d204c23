"""An app whose batches run on an event loop of their own, without HTTP; helpers create and await them."""

import asyncio
import io
import json
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from flask.testing import FlaskClient

from api import create_app
from api.batches.service import Batches
from api.server.app_request_runner import AppRequestRunner
from api.services import Services
from api.store.store import Store
from inference.models import Models
from settings.groups import ServerSettings
from tests.fakes.fake_backend import FakeBackend, make_models
from tests.timeouts import TIMEOUT_S
from tests.tuning.scripted_service import RecordingAdapters, make_service
from tuning.service import TuningService

CHATS = "/v1/chat/completions"
UNFINISHED = ("validating", "in_progress", "finalizing", "cancelling")
NUM_SLOTS = 4
MAX_BODY_BYTES = 100_000


class BatchServer:
    """client: of the app; folder: of files and batches."""

    def __init__(self, client: FlaskClient, batches: Batches, tuning: TuningService) -> None:
        self.client = client
        self.batches = batches
        self.folder = tuning.folder

    def upload(self, content: bytes, purpose: str = "batch") -> str:
        form_data = {"purpose": purpose, "file": (io.BytesIO(content), "requests.jsonl")}
        id: str = self.client.post("/v1/files", data=form_data).get_json()["id"]
        return id

    def post(self, **fields: Any) -> Any:
        body = {"endpoint": CHATS, "completion_window": "24h"} | fields
        return self.client.post("/v1/batches", json=body)

    def create(self, *lines: Any, **fields: Any) -> Any:
        """A batch of these lines: objects, or bytes."""
        content = b"".join(line if isinstance(line, bytes) else as_line(line) for line in lines)
        response = self.post(input_file_id=self.upload(content), **fields)
        assert response.status_code == 200, response.text
        return response.get_json()

    def get(self, batch_id: str) -> Any:
        return self.client.get(f"/v1/batches/{batch_id}").get_json()

    def until(self, batch_id: str, is_reached: Callable[[Any], bool]) -> Any:
        end = time.monotonic() + TIMEOUT_S
        while not is_reached(batch := self.get(batch_id)):
            assert time.monotonic() < end, batch
            time.sleep(0.002)
        return batch

    def finish(self, batch_id: str) -> Any:
        return self.until(batch_id, lambda batch: batch["status"] not in UNFINISHED)

    def run(self, *lines: Any, **fields: Any) -> Any:
        return self.finish(self.create(*lines, **fields)["id"])

    def results(self, file_id: str | None) -> dict[str, Any]:
        """The lines of a result file, by custom_id."""
        if file_id is None:
            return {}
        content = self.client.get(f"/v1/files/{file_id}/content").data
        assert content.endswith(b"\n")
        lines = [json.loads(line) for line in content.splitlines()]
        assert len({line["custom_id"] for line in lines}) == len(lines)
        return {line["custom_id"]: line for line in lines}


def as_line(value: Any) -> bytes:
    return json.dumps(value).encode() + b"\n"


def request_line(custom_id: str, url: str = CHATS, **body: Any) -> dict[str, Any]:
    """A line with a chat, or with the given body."""
    body = body or {"messages": [{"role": "user", "content": f"hi {custom_id}"}]}
    return {"custom_id": custom_id, "method": "POST", "url": url, "body": body}


@contextmanager
def running_loop() -> Iterator[asyncio.AbstractEventLoop]:
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    try:
        yield loop
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


@contextmanager
def serving(
    folder: Path,
    backend: FakeBackend,
    *,
    models: Models | None = None,
    store: Store | None = None,
    num_slots: int = NUM_SLOTS,
    **settings: Any,
) -> Iterator[BatchServer]:
    """A server on the folder; at its end, the batches pause as those of a server that stops."""
    models = models or make_models(backend)
    tuning = make_service(folder, RecordingAdapters())
    batches = Batches(tuning.folder, tuning.files, models, MAX_BODY_BYTES, num_slots)
    services = Services(tuning=tuning, batches=batches, store=store)
    app = create_app(models, ServerSettings(**settings), services=services)
    try:
        with running_loop() as loop:
            backend.attach(loop)
            batches.start(AppRequestRunner(app, loop))
            yield BatchServer(app.test_client(), batches, tuning)
            batches.stop()
            batches.close()
    finally:
        tuning.close()
