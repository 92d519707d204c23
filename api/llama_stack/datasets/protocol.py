"""The JSON of Llama Stack's dataset routes: requests and responses of all protocol versions.

Types only. Unknown fields are ignored, and every optional field accepts null.
"""

from typing import Any

from msgspec import Struct

Row = dict[str, Any]


class Url(Struct):
    uri: str


class DataSource(Struct):
    """Where the rows come from.

    type  rows: they are in the request; uri: they are elsewhere
    uri   data:…, huggingface://…, or the id of an uploaded file
    """

    type: str | None = None
    uri: str | None = None
    rows: list[Row] | None = None


class InlineDataset(Struct):
    """A dataset of the clients up to 0.0.41: where its rows are, without a name."""

    content_url: str
    columns: dict[str, Any] | None = None
    metadata: dict[str, Any] | None = None


class CreateDatasetRequest(Struct):
    """For clients up to 0.0.41."""

    uuid: str
    dataset: InlineDataset


class DatasetDefinition(Struct):
    """A dataset to register.

    url  as DataSource.uri
    """

    identifier: str
    url: str | Url
    dataset_schema: dict[str, Any] | None = None
    metadata: dict[str, Any] | None = None


class RegisterDefinitionRequest(Struct):
    """For clients 0.0.47 to 0.0.50."""

    dataset_def: DatasetDefinition


class RegisterUrlRequest(Struct):
    """For clients 0.0.53 to 0.1.8. url: as DataSource.uri"""

    dataset_id: str
    url: str | Url
    dataset_schema: dict[str, Any] | None = None
    metadata: dict[str, Any] | None = None


class RegisterDatasetRequest(Struct, kw_only=True):
    """A dataset of the clients since 0.1.9, with `purpose` and `source`; or one of those before, with `url`.

    dataset_id  null: the server chooses one
    purpose     post-training/messages, eval/question-answer or eval/messages-answer
    """

    dataset_id: str | None = None
    purpose: str | None = None
    source: DataSource | None = None
    metadata: dict[str, Any] | None = None
    url: str | Url | None = None
    dataset_schema: dict[str, Any] | None = None


class DatasetUuidRequest(Struct):
    dataset_uuid: str


class DatasetIdRequest(Struct):
    dataset_id: str


class AppendRowsRequest(Struct):
    dataset_id: str
    rows: list[Row]


class AppendedRows(Struct):
    rows: list[Row]


class DatasetCard(Struct, kw_only=True):
    """A dataset with the fields that clients of every generation require.

    url      up to 0.0.50 text; empty if the rows were in the request
    source   lists leave out the rows of a source
    columns, content_url  of the clients up to 0.0.41
    """

    identifier: str
    type: str = "dataset"
    provider_id: str
    provider_resource_id: str
    purpose: str
    source: dict[str, Any]
    metadata: dict[str, Any]
    dataset_schema: dict[str, Any]
    url: str | Url
    columns: dict[str, Any]
    content_url: str


class ListDatasets(Struct):
    data: list[DatasetCard]


class PaginatedRows(Struct):
    """A page of a dataset's rows.

    total_count      rows of the whole dataset
    next_page_token  null after the last page
    """

    rows: list[Row]
    total_count: int
    next_page_token: str | None


class IteratedRows(Struct):
    data: list[Row]
    has_more: bool
    url: str | None = None
