"""The datasets of a post-training request: by name, or in the request itself (clients up to 0.0.41)."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

from api.llama_stack.datasets.protocol import InlineDataset
from api.llama_stack.datasets.row_source import DEFAULT_PURPOSE, uri_source
from api.llama_stack.post_training.protocol import PostTrainingRequest
from inference.errors import BadRequest
from tuning.service import TuningService

FILE_PREFIX = "file-"  # of the ids of uploaded files, which may be named instead of a dataset


class DatasetIds(NamedTuple):
    """The ids of a request's datasets.

    validation: empty: none
    """

    training: str
    validation: str


@contextmanager
def registered_datasets(body: PostTrainingRequest, tuning: TuningService) -> Iterator[DatasetIds]:
    """The ids of the body's datasets. Inline ones get new ids, and are removed again if the job is refused.

    Raises NotFound for an unknown name.
    """
    registered: list[str] = []

    def dataset_id(name: str | None, inline: InlineDataset | None) -> str:
        if name:
            (tuning.files if name.startswith(FILE_PREFIX) else tuning.datasets).get(name)
        if name or inline is None or not inline.content_url:
            return name or ""
        source = uri_source(inline.content_url, inline.columns)
        dataset = tuning.datasets.register("", DEFAULT_PURPOSE, source, inline.metadata)
        registered.append(dataset.id)
        return str(dataset.id)

    data = body.training_config.data_config if body.training_config else None
    try:
        training = dataset_id(data.dataset_id if data else body.dataset_id, body.dataset)
        if not training:
            raise BadRequest("training_config.data_config", "is required")
        validation_name = data.validation_dataset_id if data else body.validation_dataset_id
        yield DatasetIds(training, dataset_id(validation_name, body.validation_dataset))
    except BaseException:
        for id in registered:
            tuning.datasets.unregister(id)
        raise
