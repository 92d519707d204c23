"""Files of llama-imatrix with one entry, of the queries of a model that is HIDDEN wide."""

import struct
from pathlib import Path

import numpy as np

HIDDEN = 64
NAME = "blk.1.attn_q.weight"
SUMS = np.arange(1, HIDDEN + 1, dtype=np.float32)


def write_legacy(path: Path, name: str, sums: np.ndarray, num_calls: int) -> Path:
    head = struct.pack("<ii", 1, len(name)) + name.encode()
    path.write_bytes(head + struct.pack("<ii", num_calls, len(sums)) + sums.tobytes() + struct.pack("<i", 7))
    return path
