"""The few small files of a model on the Hub that a verdict reads, within what a verdict may cost.

They come all at once, into the cache, where the fetch finds them. Not a byte of weights is among them.
"""

import time
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor, wait
from pathlib import Path
from urllib.parse import quote

from huggingface_hub import HfApi, get_session
from huggingface_hub.utils import hf_raise_for_status

from checks.finding import Refused, size
from checks.source.cache import Storage, write
from checks.source.config import wrong
from checks.source.file import File
from checks.source.hub import Hub
from checks.source.refusals import Unanswered, untrue

COST = 1_400_000  # bytes: of the 2 MB, what the list of files and the headers of weights leave
TRIES = 2
LONGEST_S = 20  # that a file may take
LATER = "try again later"
CONFIG = "config.json"
INDEX = "model.safetensors.index.json"
TEMPLATE = "chat_template.jinja"
TEMPLATES = "additional_chat_templates/"
TOKENS = "special_tokens_map.json"
TOKENIZER = "tokenizer_config.json"
# The most telling first: where they are too large together, the last are left for the fetch.
READ = (CONFIG, TEMPLATE, TOKENS, INDEX, TOKENIZER)


def glance(hub: Hub, name: str, commit: str, files: Mapping[str, File], *, gated: bool) -> Path:
    """Fetch them, and give the folder where they are. `files`: all that there are, by name.

    Raises what huggingface_hub does, of a gated model first that it is one; Refused, and Unanswered where
    other bytes come than were promised.
    """
    if CONFIG in files and files[CONFIG].size > COST:
        raise wrong(name, f"it has {size(files[CONFIG].size)}")
    with ThreadPoolExecutor(8) as threads:
        allowed = threads.submit(HfApi(hub.endpoint, token=hub.key).auth_check, name) if gated else None
        coming = [threads.submit(bring, hub, name, commit, file) for file in affordable(files)]
        wait(coming)
        for done in ([allowed] if allowed else []) + coming:
            done.result()
    return Storage(hub.storage(name)).snapshot(commit)


def affordable(files: Mapping[str, File]) -> list[File]:
    """Of the files that a verdict reads, those that it can pay for."""
    wanted = [
        *(name for name in READ if name in files),
        *(name for name in files if name.startswith(TEMPLATES)),
    ]
    left, chosen = COST, []
    for file in map(files.__getitem__, wanted):
        if file.size <= left:
            left -= file.size
            chosen.append(file)
    return chosen


def bring(hub: Hub, name: str, commit: str, file: File) -> None:
    """One file into the cache, by a single request: its size and its hash are known."""
    if not file.safe:
        raise Refused(untrue(file.name, file.etag, hub))
    storage = Storage(hub.storage(name))
    if not storage.holds(commit, file.name, file.etag, file.size):
        url = f"{hub.endpoint}/{name}/resolve/{commit}/{quote(file.name)}"
        write(storage.blob(file.etag), proved(url, file, hub))
    storage.link(commit, file.name, file.etag)


def proved(url: str, file: File, hub: Hub) -> bytes:
    """The file's bytes, as its hash has them."""
    for _ in range(TRIES):
        content = received(url, file, hub)
        hashed = file.hashing()
        hashed.update(content)
        if hashed.hexdigest() == file.etag:
            return content
    raise Unanswered(f"{hub.endpoint} sends other bytes of {file.name} than it promised", LATER)


def received(url: str, file: File, hub: Hub) -> bytes:
    """What comes, no more of it than a chunk beyond the file's size, and no longer than a verdict waits."""
    content, end = bytearray(), time.monotonic() + LONGEST_S
    with get_session().stream("GET", url, headers=hub.headers) as answer:
        if not answer.is_success:
            answer.read()  # what it says of the error
        hf_raise_for_status(answer)
        for chunk in answer.iter_bytes():
            content += chunk
            if len(content) > file.size:
                break
            if time.monotonic() > end:
                raise Unanswered(f"{hub.endpoint} has not sent {file.name} in {LONGEST_S} s", LATER)
    return bytes(content)
