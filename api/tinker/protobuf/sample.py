"""Writes Tinker's protobuf message SampleResponse."""

import math
from collections.abc import Sequence
from itertools import zip_longest

import numpy as np

from api.tinker.protobuf.tensor import write_tensor
from api.tinker.protobuf.wire import bytes_field, integer_field
from api.tinker.sampling.result import SampledSequence, SampleResult, TopTokens
from api.tinker.tensors import TOKEN

STOP_REASONS = {"stop": 0, "length": 1}
LOGPROB = np.dtype("<f4")
NO_TOKEN = (0, -99999.0)  # fills the rows of TopkLogprobs, which are of one length


def write_sample(result: SampleResult) -> bytes:
    content = b"".join(bytes_field(1, write_sequence(sequence)) for sequence in result.sequences)
    if result.prompt_logprobs is not None:
        logprobs = [math.nan if value is None else value for value in result.prompt_logprobs]
        content += bytes_field(2, np.array(logprobs, LOGPROB).tobytes())
    if result.prompt_top_tokens is not None:
        content += bytes_field(3, write_top_tokens(result.prompt_top_tokens))
    content += integer_field(4, result.num_cached_tokens)
    if result.target_logprobs is not None:
        content += bytes_field(5, write_tensor(result.target_logprobs))
    if result.drawn_tokens is not None:
        ids, id_logprobs = map(write_tensor, result.drawn_tokens)
        content += bytes_field(6, bytes_field(1, ids) + bytes_field(2, id_logprobs))
    return content


def write_sequence(sequence: SampledSequence) -> bytes:
    content = (
        integer_field(1, STOP_REASONS[sequence.stop_reason])
        + bytes_field(2, np.array(sequence.token_ids, TOKEN).tobytes())
        + bytes_field(3, np.array(sequence.logprobs, LOGPROB).tobytes())
    )
    return content + (bytes_field(4, write_top_tokens(sequence.top_tokens)) if sequence.top_tokens else b"")


def write_top_tokens(rows: Sequence[TopTokens | None]) -> bytes:
    """The message TopkLogprobs: a row for each place, (n, k)."""
    columns = list(zip_longest(*(row or () for row in rows), fillvalue=NO_TOKEN))  # k of n (id, logprob)
    ids = np.array([[id for id, _ in column] for column in columns], TOKEN)
    logprobs = np.array([[logprob for _, logprob in column] for column in columns], LOGPROB)
    return (
        bytes_field(1, ids.T.tobytes())
        + bytes_field(2, logprobs.T.tobytes())
        + integer_field(3, len(columns))
        + integer_field(4, len(rows))
    )
