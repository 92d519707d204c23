"""The fake Hub with the requests by which huggingface_hub creates a repository and commits files to it."""

import base64
import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from scripts.loopback import listening
from tests.fakes.fake_hub import TOKEN, FakeHub, HubRequestHandler, HubServer


@dataclass
class UploadHub(FakeHub):
    """A Hub that takes uploads.

    created   the bodies that created repositories
    uploaded  path -> content of all committed files
    """

    created: list[dict[str, Any]] = field(default_factory=list)
    uploaded: dict[str, bytes] = field(default_factory=dict)


class UploadRequestHandler(HubRequestHandler):
    hub: UploadHub

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        if self.headers.get("Authorization") != f"Bearer {TOKEN}":
            self.send(401, {"error": "Invalid username or password."})
        elif self.path == "/api/repos/create":
            created = json.loads(body)
            self.hub.created.append(created)
            self.send(200, {"url": f"{self.hub.url}/{created['organization']}/{created['name']}"})
        elif re.fullmatch(r"/api/models/[^/]+/[^/]+/preupload/main", self.path):
            files = [{"path": file["path"], "uploadMode": "regular"} for file in json.loads(body)["files"]]
            self.send(200, {"files": [file | {"shouldIgnore": False} for file in files]})
        elif re.fullmatch(r"/api/models/[^/]+/[^/]+/commit/main", self.path):
            self.commit([json.loads(line) for line in body.splitlines()])
        else:
            self.send(404, {"error": "no such route"})

    def commit(self, lines: list[dict[str, Any]]) -> None:
        for line in lines:
            if line["key"] == "file":
                self.hub.uploaded[line["value"]["path"]] = base64.b64decode(line["value"]["content"])
        self.send(200, {"commitUrl": f"{self.hub.url}/me/model/commit/1", "commitOid": "1" * 40})


@contextmanager
def running_with_uploads() -> Iterator[UploadHub]:
    hub = UploadHub()
    server = HubServer(("127.0.0.1", 0), type("Handler", (UploadRequestHandler,), {"hub": hub}))
    with listening(server) as hub.url:
        yield hub
