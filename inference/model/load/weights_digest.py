"""A short digest of a model's weights: equal for copies, different for another revision or after tuning.

Reads samples, not all of the files: it finds mistakes, not who wants to deceive.
"""

import hashlib
from collections.abc import Iterator
from pathlib import Path

from inference.model.load.formats import FORMATS

NUM_SAMPLES = 256  # of all files together
SAMPLE_BYTES = 1 << 12
DIGEST_LENGTH = 16


def weights_digest(source: Path) -> str:
    """The digest of the model in a folder, or in a GGUF file, the first of its shards. Raises OSError."""
    weights_format = next(each for each in FORMATS if each.matches(source))
    paths = sorted(weights_format.files(source))
    digest = hashlib.sha256()
    for path in paths:
        digest.update(path.stat().st_size.to_bytes(8, "little"))
        for sample in read_samples(path, -(-NUM_SAMPLES // len(paths))):
            digest.update(sample)
    return digest.hexdigest()[:DIGEST_LENGTH]


def read_samples(path: Path, count: int) -> Iterator[bytes]:
    """`count` blocks, evenly spread from the first one to the last one."""
    last = max(0, path.stat().st_size - SAMPLE_BYTES)
    with path.open("rb") as file:
        for number in range(count):
            file.seek(last * number // max(1, count - 1))
            yield file.read(SAMPLE_BYTES)
