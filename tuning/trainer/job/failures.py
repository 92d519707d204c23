"""Why a job ends without a result, in words for its user.

Knows the errors of this server.
"""

from inference.errors import BadRequest, ServerError, named_error
from inference.process.full_disk import is_disk_full
from inference.process.memory.memory_shortage import is_memory_shortage
from tuning.data.examples import InvalidDataset

OUT_OF_MEMORY = (
    "the training ran out of memory: a smaller batch_size, a shorter max_length, activation checkpointing or "
    "quantize_base need less"
)
NO_DISK = (
    "the disk of TUNING_DIR is full: free some of it, and create the job again; name its last checkpoint as "
    "the model to go on from that"
)
NOT_FINITE = (
    "the loss or its gradients were not finite in {count} steps running: use a lower learning rate; "
    "the last good checkpoint is kept"
)


class JobFailed(Exception):
    """The job ends with an error. param: the field of the request that is the cause; empty: none."""

    def __init__(self, code: str, message: str, param: str = "") -> None:
        super().__init__(message)
        self.code, self.message, self.param = code, message, param


def to_failure(error: Exception) -> JobFailed:
    """The failure that an error of a job means."""
    if isinstance(error, JobFailed):
        return error
    if isinstance(error, InvalidDataset):
        return JobFailed("invalid_training_file", error.message, "training_file")
    if isinstance(error, BadRequest):
        return JobFailed("invalid_request", error.message, error.field)
    if isinstance(error, ServerError):
        return JobFailed("unavailable", error.message)
    if is_memory_shortage(error):
        return JobFailed("out_of_memory", OUT_OF_MEMORY)
    if is_disk_full(error):
        return JobFailed("insufficient_disk", NO_DISK)
    return JobFailed("internal_error", named_error(error))
