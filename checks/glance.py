"""The few small files of a model on the Hub that a verdict reads, within what a verdict may cost.

They come all at once, into the cache, where the fetch finds them. Not a byte of weights is among them.
"""

from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor, wait
from pathlib import Path

from huggingface_hub import HfApi, hf_hub_download
from huggingface_hub.errors import RemoteEntryNotFoundError

from checks.cache import Storage
from checks.hub import Hub

COST = 1_500_000  # bytes: what is left of 2 MB when the model itself has been described
CONFIG = "config.json"
INDEX = "model.safetensors.index.json"
TEMPLATE = "chat_template.jinja"
TEMPLATES = "additional_chat_templates/"
TOKENS = "special_tokens_map.json"
TOKENIZER = "tokenizer_config.json"
# The most telling first: where they are too large together, the last are left for the fetch.
READ = (CONFIG, TEMPLATE, TOKENS, INDEX, TOKENIZER)


def glance(hub: Hub, name: str, commit: str, sizes: Mapping[str, int], *, gated: bool) -> Path:
    """Fetch them, and give the folder where they are. `sizes`: of all files that there are.

    Raises what huggingface_hub does, of a gated model first that it is one.
    """
    with ThreadPoolExecutor(8) as threads:
        allowed = threads.submit(HfApi(hub.endpoint, token=hub.key).auth_check, name) if gated else None
        files = [threads.submit(bring, hub, name, file, commit) for file in affordable(sizes)]
        wait(files)
        for done in ([allowed] if allowed else []) + files:
            done.result()
    return Storage(hub.storage(name)).snapshot(commit)


def affordable(sizes: Mapping[str, int]) -> list[str]:
    """Of the files that a verdict reads, those that it can pay for."""
    wanted = [
        *(file for file in READ if file in sizes),
        *(file for file in sizes if file.startswith(TEMPLATES)),
    ]
    left, chosen = COST, []
    for file in wanted:
        if file == CONFIG or sizes[file] <= left:
            left -= sizes[file]
            chosen.append(file)
    return chosen


def bring(hub: Hub, name: str, file: str, commit: str) -> None:
    try:
        hf_hub_download(
            name, file, revision=commit, cache_dir=hub.cache, token=hub.key, endpoint=hub.endpoint
        )
    except RemoteEntryNotFoundError:  # listed, and yet not there: the fetch will say so
        return
