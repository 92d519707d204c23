"""The few small files of a model on the Hub that a verdict reads, within what a verdict may cost.

They come all at once, into the cache, where the fetch finds them. Not a byte of weights is among them.
"""

from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor, wait
from pathlib import Path
from urllib.parse import quote

from huggingface_hub import HfApi, get_session
from huggingface_hub.utils import hf_raise_for_status

from checks.finding import Refused
from checks.source.cache import Storage, write
from checks.source.file import File
from checks.source.hub import Hub
from checks.source.refusals import Unanswered, untrue

COST = 1_400_000  # bytes: of the 2 MB, what the list of files and the headers of weights leave
TRIES = 2
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
        if file.name == CONFIG or file.size <= left:
            left -= file.size
            chosen.append(file)
    return chosen


def bring(hub: Hub, name: str, commit: str, file: File) -> None:
    """One file into the cache, by a single request: its size and its hash are known."""
    if not file.proved:
        raise Refused(untrue(file.name, file.etag, hub))
    storage = Storage(hub.storage(name))
    if not storage.holds(commit, file.name, file.etag, file.size):
        url = f"{hub.endpoint}/{name}/resolve/{commit}/{quote(file.name)}"
        write(storage.blob(file.etag), proved(url, file, hub))
    storage.link(commit, file.name, file.etag)


def proved(url: str, file: File, hub: Hub) -> bytes:
    """The file's bytes, as its hash has them."""
    for _ in range(TRIES):
        answer = get_session().get(url, headers=hub.headers)
        hf_raise_for_status(answer)
        hashed = file.hashing()
        hashed.update(answer.content)
        if hashed.hexdigest() == file.etag:
            return answer.content
    raise Unanswered(f"{hub.endpoint} sends other bytes of {file.name} than it promised", "try again later")
