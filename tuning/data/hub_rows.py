"""The rows of a dataset on the Hub, named by a huggingface:// address.

Knows addresses and formats of files; fetches nothing itself.
"""

import logging
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl

from hub.dataset_files import DatasetSource
from inference.errors import BadRequest
from inference.finding import NOT_FETCHED, Refused
from tuning.data.examples import InvalidDataset
from tuning.data.parquet import PARQUET
from tuning.data.rows import JSONL, open_rows

log = logging.getLogger(__name__)

FetchDataset = Callable[[DatasetSource], Sequence[Path]]  # the files of a split; raises finding.Refused

SCHEME = "huggingface://"
SEGMENT = r"[A-Za-z0-9][A-Za-z0-9._-]{0,95}"
ADDRESS = re.compile(
    rf"{SCHEME}(?:datasets/)?(?P<name>(?!datasets/){SEGMENT}/{SEGMENT})(?:@(?P<revision>{SEGMENT}(?:/{SEGMENT})*))?"
    r"(?:\?(?P<query>[^#]*))?"
)
OPTION = re.compile(r"[A-Za-z0-9][A-Za-z0-9._/-]{0,95}")
RULE = f"must be {SCHEME}datasets/owner/name, with ?split=…, &subset=… and &revision=… behind it where needed"
MEDIA_TYPES: Mapping[str, str] = {
    ".jsonl": JSONL,
    ".ndjson": JSONL,
    ".csv": "text/csv",
    ".parquet": PARQUET,
}
PUBLIC_FINDINGS = ("access", "dataset")  # the others may name folders of this machine
MAX_SHOWN_CHARS = 60
SNIFFED_BYTES = 1000  # of a .json file, which may be an array or JSON lines


def parse_address(address: str) -> DatasetSource:
    """The dataset of a huggingface:// address. Raises BadRequest."""
    match = ADDRESS.fullmatch(address)
    if match is None or ".." in address:
        raise BadRequest("source.uri", RULE, address[:MAX_SHOWN_CHARS])
    options = dict(parse_qsl(match["query"] or "", keep_blank_values=True))
    unknown_names = sorted(options.keys() - {"split", "subset", "revision"})
    if unknown_names:
        raise BadRequest("source.uri", f"has an option that is not known; it {RULE}", unknown_names[0])
    for value in options.values():
        if not OPTION.fullmatch(value):
            raise BadRequest("source.uri", f"has an option without a usable value; it {RULE}", value)
    revision = match["revision"] or options.get("revision", "main")
    return DatasetSource(match["name"], revision, options.get("split", "train"), options.get("subset", ""))


def hub_rows(address: str, fetch: FetchDataset) -> Iterator[dict[str, Any]]:
    """The rows of a dataset on the Hub. Raises BadRequest, InvalidDataset."""
    source = parse_address(address)
    try:
        paths = fetch(source)
    except Refused as error:
        log.warning("dataset not fetched: source=%s: %s", address, error.finding.have)
        finding = error.finding
        reason = f"{finding.have}: {finding.fix}" if finding.name in PUBLIC_FINDINGS else NOT_FETCHED
        raise BadRequest("source.uri", f"{source.name} cannot be used: {reason}") from None
    yield from file_rows(paths)


def file_rows(paths: Iterable[Path]) -> Iterator[dict[str, Any]]:
    """The rows of all files, one after the other. Raises InvalidDataset with the name of the file."""
    for path in paths:
        try:
            yield from (row for _, row in open_rows(path, media_type_of(path)))
        except InvalidDataset as error:
            raise InvalidDataset(None, f"{path.name}: {error.message}") from None


def media_type_of(path: Path) -> str:
    """The media type by the suffix; of a .json file by its first character."""
    if path.suffix in MEDIA_TYPES:
        return MEDIA_TYPES[path.suffix]
    with path.open("rb") as file:
        is_array = file.read(SNIFFED_BYTES).removeprefix(b"\xef\xbb\xbf").lstrip().startswith(b"[")
    return "application/json" if is_array else JSONL
