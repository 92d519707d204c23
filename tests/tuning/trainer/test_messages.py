"""Messages between the server and its trainer: what is written is read again, and a broken one is an end."""

import io

import numpy as np
import pytest

from tuning.trainer.datum import Datum
from tuning.trainer.messages import arrays_to_data, data_to_arrays, read_message, write_message

DATA = [
    Datum([1, 2], [2, 3], {"weights": [0.0, 1.5]}),
    Datum(np.array([7]), np.array([[8, 9]]), {"weights": np.array([[0.5, 0.5]], np.float32)}),
    Datum([4], [5]),
]


def written() -> bytes:
    stream = io.BytesIO()
    write_message(stream, {"verb": "x"}, data_to_arrays(DATA))
    write_message(stream, {"verb": "y"}, {})
    return stream.getvalue()


def test_data_cross_a_stream() -> None:
    stream = io.BytesIO(written())
    first, second = read_message(stream), read_message(stream)
    assert first and second and (first.header, second.header) == ({"verb": "x"}, {"verb": "y"})
    for read, sent in zip(arrays_to_data(first.arrays), DATA, strict=True):
        assert np.array_equal(read.token_ids, sent.token_ids)
        assert np.array_equal(read.target_ids, sent.target_ids) and read.inputs.keys() == sent.inputs.keys()
        assert all(np.array_equal(read.inputs[name], sent.inputs[name]) for name in sent.inputs)
    assert read_message(stream) is None


def test_a_message_that_breaks_off_is_the_end() -> None:
    frames = written()
    for size in range(0, len(frames), 7):
        stream = io.BytesIO(frames[:size])
        messages = [read_message(stream), read_message(stream)]
        assert messages[1] is None


class ShortOfMemory(io.BytesIO):
    """Refuses the first read of more bytes than a message without arrays has."""

    has_refused = False

    def read(self, size: int | None = -1, /) -> bytes:
        if not self.has_refused and (size or 0) > 100:
            self.has_refused = True
            raise MemoryError
        return super().read(size)


def test_what_follows_arrays_that_do_not_fit_is_read() -> None:
    stream = ShortOfMemory(written())
    with pytest.raises(MemoryError):
        read_message(stream)
    message = read_message(stream)
    assert message and message.header == {"verb": "y"}
