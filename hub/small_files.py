"""Fetches the small files of a model on the Hub that the checks read, within a budget of bytes.

They are fetched in parallel into the cache, where the download of the model finds them.
"""

import time
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor, wait
from pathlib import Path
from typing import Any
from urllib.parse import quote

from huggingface_hub import HfApi, get_session
from huggingface_hub.utils import hf_raise_for_status

from hub.cache import ModelCache, write_atomically
from hub.client import Hub
from hub.errors import HubUnavailable, explain_no_such_model, explain_untrusted_file
from hub.model_config import check_config, config_error
from hub.repository import RepoFile
from inference import untrusted_json
from inference.finding import Refused, format_size
from inference.lora.file_names import ADAPTER_CONFIG
from inference.model.load.gguf.file.shards import GGUF

MAX_BYTES = 1_400_000  # the checks may read 2 MB; the rest is for the listing and the weight headers
MAX_TRIES = 2
MAX_FILE_S = 20  # seconds that the fetch of one file may take
RETRY_FIX = "try again later"
CONFIG = "config.json"
INDEX = "model.safetensors.index.json"
TEMPLATE = "chat_template.jinja"
TEMPLATES = "additional_chat_templates/"
SPECIAL_TOKENS = "special_tokens_map.json"
TOKENIZER = "tokenizer_config.json"
# The most important first: files beyond the budget are left for the download.
METADATA_FILES = (CONFIG, ADAPTER_CONFIG, TEMPLATE, SPECIAL_TOKENS, INDEX, TOKENIZER)


def fetch_metadata(hub: Hub, name: str, commit: str, files: Mapping[str, RepoFile], *, gated: bool) -> Path:
    """Fetch the metadata files and return their folder. `files`: all files of the model, by name.

    Raises huggingface_hub's errors, for a gated model GatedRepoError first; Refused; and HubUnavailable for
    content with the wrong hash.
    """
    if CONFIG in files and files[CONFIG].size > MAX_BYTES:
        raise config_error(name, f"it has {format_size(files[CONFIG].size)}")
    with ThreadPoolExecutor(8) as threads:
        auth_check = (
            threads.submit(HfApi(hub.endpoint, token=hub.auth_token).auth_check, name) if gated else None
        )
        downloads = [
            threads.submit(fetch_file, hub, name, commit, file) for file in select_within_budget(files)
        ]
        wait(downloads)
        for future in ([auth_check] if auth_check else []) + downloads:
            future.result()
    return ModelCache(hub.model_folder(name)).snapshot(commit)


def select_within_budget(files: Mapping[str, RepoFile]) -> list[RepoFile]:
    """The metadata files that fit the budget, the most important first."""
    names = [
        *(name for name in METADATA_FILES if name in files),
        *(name for name in files if name.startswith(TEMPLATES)),
    ]
    remaining_bytes, selected = MAX_BYTES, []
    for file in map(files.__getitem__, names):
        if file.size <= remaining_bytes:
            remaining_bytes -= file.size
            selected.append(file)
    return selected


def fetch_file(hub: Hub, name: str, commit: str, file: RepoFile) -> None:
    """Fetch one file into the cache with a single request, unless the cache has it."""
    if not file.is_safe:
        raise Refused(explain_untrusted_file(file.name, file.etag, hub))
    cache = ModelCache(hub.model_folder(name))
    if not cache.has_file(commit, file.name, file.etag, file.size):
        url = f"{hub.endpoint}/{name}/resolve/{commit}/{quote(file.name)}"
        write_atomically(cache.blob(file.etag), download_verified(url, file, hub))
    cache.link(commit, file.name, file.etag)


def download_verified(url: str, file: RepoFile, hub: Hub) -> bytes:
    """Download the file and verify its hash. Raises HubUnavailable after MAX_TRIES."""
    for _ in range(MAX_TRIES):
        content = download(url, file, hub)
        hashed = file.new_hash()
        hashed.update(content)
        if hashed.hexdigest() == file.etag:
            return content
    raise HubUnavailable(f"{hub.endpoint} sent {file.name} with the wrong hash", RETRY_FIX)


def download(url: str, file: RepoFile, hub: Hub) -> bytes:
    """Download the file; stops after its size if more is sent. Raises HubUnavailable after MAX_FILE_S."""
    content, deadline = bytearray(), time.monotonic() + MAX_FILE_S
    with get_session().stream("GET", url, headers=hub.headers) as response:
        if not response.is_success:
            response.read()  # the error message
        hf_raise_for_status(response)
        for chunk in response.iter_bytes():
            content += chunk
            if len(content) > file.size:
                break
            if time.monotonic() > deadline:
                raise HubUnavailable(f"{hub.endpoint} has not sent {file.name} in {MAX_FILE_S} s", RETRY_FIX)
    return bytes(content)


def read_model_config(folder: Path, name: str, files: Iterable[str]) -> dict[str, Any]:
    """Read config.json; empty for a GGUF file, whose header has the config. Raises Refused."""
    if any(file.endswith(GGUF) for file in files):
        return {}
    if not (folder / CONFIG).is_file():
        raise Refused(explain_no_such_model(name, "no config.json among its files"))
    return check_config(read_json(folder / CONFIG, name), name)


def read_index(path: Path, name: str) -> set[str]:
    """The names of the weight files in a safetensors index. Raises Refused."""
    files = read_json(path, name).get("weight_map")
    if not isinstance(files, dict) or not all(isinstance(file, str) for file in files.values()):
        raise Refused(explain_no_such_model(name, f"{path.name} does not say which file each weight is in"))
    return set(files.values())


def read_json(path: Path, name: str) -> dict[str, Any]:
    try:
        return untrusted_json.read_json_object(path, decode_float)
    except (OSError, ValueError) as error:
        raise Refused(explain_no_such_model(name, str(error))) from error


def decode_float(value: dict[str, Any]) -> Any:
    """Decode transformers' form of numbers that JSON lacks: {"__float__": "Infinity"}."""
    return float(value["__float__"]) if value.keys() == {"__float__"} else value
