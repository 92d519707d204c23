"""target_prompt_logprobs: ids to score at the places of a prompt, and their logprobs in the same layout."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from api.tinker.tensor_json import TensorFields, read_tensor
from api.tinker.tensors import FLOAT, INTEGER, Array, Tensor, to_dense
from inference.errors import BadRequest

FIELD = "target_prompt_logprobs"
NO_TOKEN = -1  # a cell that requests nothing


@dataclass(frozen=True, slots=True)
class PromptTargets:
    """The ids to score at each place of a prompt.

    tensor: the ids as the client sent them. candidates: the ids of each place.
    """

    tensor: Tensor
    candidates: Sequence[Sequence[int]]

    def to_tensor(self, logprobs: Sequence[float]) -> Tensor:
        """The logprobs of the candidates, in order, in the layout of the ids; 0 where there is none."""
        values = np.zeros(len(self.tensor.values), FLOAT)
        values[self.tensor.values != NO_TOKEN] = logprobs
        return Tensor(values, self.tensor.shape, self.tensor.csr)


def read_targets(fields: TensorFields, num_places: int) -> PromptTargets:
    """Raises BadRequest. The ranges of the ids are checked with the request."""
    tensor = read_tensor(fields, FIELD)
    shape = to_dense(tensor, FIELD).shape
    if tensor.values.dtype != INTEGER or len(shape) != 2 or shape[0] != num_places:
        rule = f"must be int64 of the shape [{num_places}, K]: a row for each token after the first"
        raise BadRequest(FIELD, rule, [fields.dtype, *shape])
    is_token = tensor.values != NO_TOKEN
    counts = np.bincount(row_numbers(tensor, *shape)[is_token], minlength=num_places)
    ids = np.split(tensor.values[is_token], np.cumsum(counts)[:-1])
    return PromptTargets(tensor, [each.tolist() for each in ids[:num_places]])


def row_numbers(tensor: Tensor, num_rows: int, num_columns: int) -> Array:
    """The row of each value."""
    counts = np.full(num_rows, num_columns) if tensor.csr is None else np.diff(tensor.csr.row_starts)
    return np.repeat(np.arange(num_rows), counts)
