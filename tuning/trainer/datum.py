"""What the trainer computes a loss over: sequences of token ids with numbers for each target.

Plain values and arrays; check_datum.py checks every shape before the first pass.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

Array = np.ndarray[Any, np.dtype[Any]]
Integers = Sequence[int] | Array
Numbers = Sequence[float] | Array


@dataclass(frozen=True, slots=True, eq=False)
class Datum:
    """One sequence of N tokens.

    token_ids   (N,) what the model reads
    target_ids  (N,): target_ids[i] follows token_ids[: i + 1]; or (N, K): K candidates for each place
    inputs      by the name that the loss knows it by: a number for each target
    """

    token_ids: Integers
    target_ids: Integers
    inputs: Mapping[str, Numbers] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.token_ids)

    @property
    def num_bytes(self) -> int:
        return sum(
            np.asarray(each).nbytes for each in (self.token_ids, self.target_ids, *self.inputs.values())
        )

    def input(self, name: str, default: float | None) -> Array:
        """The numbers of an input, float32; `default` for each target if the datum does not have it."""
        if name not in self.inputs and default is not None:
            return np.full(np.shape(self.target_ids), default, np.float32)
        return np.asarray(self.inputs[name], np.float32)
