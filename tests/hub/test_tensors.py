"""The header of a safetensors file: its number of tensors is bounded."""

import json
import time

import pytest

from hub.tensors import MAX_TENSORS, MalformedHeader, parse_header


def test_more_tensors_than_any_file_has_are_refused_soon() -> None:
    header = json.dumps(
        {f"t{i}": {"dtype": "F32", "shape": [1], "data_offsets": [4 * i, 4 * i + 4]} for i in range(100_001)}
    ).encode()
    started = time.thread_time()
    with pytest.raises(MalformedHeader, match=f"100001 tensors, at most {MAX_TENSORS} are read"):
        parse_header(header)
    assert time.thread_time() - started < 10
