"""PreparedJob: the result of the validation of a job's files: what will be trained, or the errors."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from inference.finding import Finding
from tuning.data.inspection import InspectedRow
from tuning.types import JobError, JobSpec


@dataclass(frozen=True, slots=True, kw_only=True)
class PreparedJob:
    """A draft whose files are valid, or why they are not.

    spec                what to train; None if the files are invalid
    num_examples        rows of the training file that are trained on
    num_cut             rows left out because they are too long
    num_tokens          of all examples, prompts included; num_trained_tokens: those with a weight in the loss
    max_row_tokens      of the longest example
    num_total_steps     optimizer steps
    estimated_s         seconds of the training, of a dry run only; None: it could not be estimated
    messages            what the user must know, as sentences
    memory              whether the training fits beside serving: need, have and fix
    memory_plan         bytes by term
    shown_rows          the first rows with their tokens and masks
    """

    spec: JobSpec | None = None
    num_examples: int = 0
    num_cut: int = 0
    num_tokens: int = 0
    num_trained_tokens: int = 0
    max_row_tokens: int = 0
    num_total_steps: int = 0
    estimated_s: float | None = None
    messages: tuple[str, ...] = ()
    memory: Finding | None = None
    memory_plan: Mapping[str, int] = field(default_factory=dict)
    shown_rows: tuple[InspectedRow, ...] = ()
    error: JobError | None = None
