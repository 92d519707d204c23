"""Reads the headers of a model's GGUF files, from the disk or in ranges from the Hub, and derives the config.

inference/model/load/gguf/ parses the headers, and lets transformers convert them to a config.
"""

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from itertools import repeat
from typing import Any

from hub.client import Hub
from hub.model_config import check_config
from hub.repository import RepoFile, Repository
from hub.tensors import HeaderUnavailable
from hub.weight_headers.ranges import CONNECTIONS, MAX_BYTES, REQUEST_OVERHEAD, range_readers
from inference.errors import error_line
from inference.finding import Finding, Refused
from inference.model.load.gguf.config.config import config_of_header
from inference.model.load.gguf.file.cursor import READ_SIZE, NotGguf
from inference.model.load.gguf.file.header import GgufHeader, read_header
from inference.model.load.gguf.file.shards import merge_headers
from inference.model.load.meta_model import has_tied_embeddings
from inference.model.load.silence import silence_transformers

SMALL_STEP = 1 << 13  # bytes per request of the parts after the first, which have little metadata
MIN_BYTES = 1 << 9  # least bytes to read of such a part


def with_gguf_config(repository: Repository, hub: Hub) -> Repository:
    """The model with the config from its GGUF headers. Raises Refused if they cannot be read."""
    files = repository.weight_files
    names, sizes = [file.name for file in files], [file.size for file in files]
    try:
        header = merge_headers(names, sizes, read_headers(repository, files, hub))
        raw_config = config_from_header(header, repository.weight_bytes)
    except (HeaderUnavailable, NotGguf) as reason:
        fix = "choose another GGUF_FILE, or a model with safetensors"
        raise Refused(Finding("weights", repository.gguf_file, str(reason), False, fix)) from reason
    config = check_config(raw_config, repository.name)
    if (
        header.tensors is None
        and repository.num_elements
        and has_tied_embeddings(config, repository.num_elements)
    ):
        config["tie_word_embeddings"] = True
    return replace(repository, config=config, gguf_header=header)


def read_headers(repository: Repository, files: Sequence[RepoFile], hub: Hub) -> list[GgufHeader]:
    """Read the header of each file; from the Hub at most MAX_BYTES in all.

    The first part has the metadata of the model and gets half of the bytes. The others have their tensor
    tables near the start.
    """
    readers = range_readers(repository, files, hub)
    sizes = [file.size for file in files]
    num_rest = len(files) - 1
    if repository.folder is not None:
        return list(map(read_header, readers, sizes, sizes))
    bytes_each = max(MIN_BYTES, MAX_BYTES // 2 // max(1, num_rest) - REQUEST_OVERHEAD)
    byte_limits = (MAX_BYTES // 2 if num_rest else MAX_BYTES, *repeat(bytes_each, num_rest))
    steps = (READ_SIZE, *repeat(min(SMALL_STEP, bytes_each), num_rest))
    with ThreadPoolExecutor(CONNECTIONS) as threads:
        return list(threads.map(read_header, readers, sizes, byte_limits, steps))


def config_from_header(header: GgufHeader, size: int) -> dict[str, Any]:
    """The config.json of a GGUF file of `size` bytes, as transformers derives it from the header.

    If the tensor table was not read, the output head counts as untied: the size is not underestimated.
    Raises HeaderUnavailable if transformers does not know the architecture.
    """
    if not header.architecture:
        raise HeaderUnavailable("a GGUF file that names no architecture")
    try:
        with silence_transformers():
            config = config_of_header(header, size).to_dict()
    except Exception as error:  # transformers supports only some architectures
        raise HeaderUnavailable(error_line(error)) from error
    return {name: value for name, value in config.items() if value is not None and name != "_name_or_path"}
