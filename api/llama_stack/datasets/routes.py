"""The views of the dataset routes: they translate between bodies and the tuning service's datasets."""

from typing import Any

from flask import request

from api.body.json_body import read_struct
from api.hooks.tuning_access import require_service
from api.llama_stack.datasets.protocol import (
    AppendedRows,
    AppendRowsRequest,
    CreateDatasetRequest,
    DatasetCard,
    DatasetIdRequest,
    DatasetUuidRequest,
    DataSource,
    IteratedRows,
    ListDatasets,
    PaginatedRows,
    RegisterDatasetRequest,
    RegisterDefinitionRequest,
    RegisterUrlRequest,
    Url,
)
from api.llama_stack.datasets.replies import dataset_card
from api.llama_stack.datasets.row_source import DEFAULT_PURPOSE, check_purpose, uri_source
from api.llama_stack.versions import ProtocolVersion
from inference.errors import BadRequest
from tuning.store.datasets import Datasets
from tuning.store.schema import RegisteredDataset

ALL_ROWS = -1


class DatasetRoutes:
    def __init__(self, version: ProtocolVersion) -> None:
        self.version = version

    def create(self) -> None:
        body = read_struct(CreateDatasetRequest)
        dataset = body.dataset
        register(body.uuid, dataset.content_url, dataset.columns, dataset.metadata)

    def register_definition(self) -> None:
        definition = read_struct(RegisterDefinitionRequest).dataset_def
        register(definition.identifier, definition.url, definition.dataset_schema, definition.metadata)

    def register_url(self) -> None:
        body = read_struct(RegisterUrlRequest)
        register(body.dataset_id, body.url, body.dataset_schema, body.metadata)

    def register_source(self) -> DatasetCard | None:
        """Returns None for the format of the clients before 0.1.9, who expect null."""
        body = read_struct(RegisterDatasetRequest)
        if body.source is None:
            if body.url is None:
                raise BadRequest("source", "is required")
            register(body.dataset_id or "", body.url, body.dataset_schema, body.metadata)
            return None
        purpose = DEFAULT_PURPOSE if body.purpose is None else body.purpose
        check_purpose(purpose)
        source = to_source(body.source)
        return self._full_card(datasets().register(body.dataset_id or "", purpose, source, body.metadata))

    def list(self) -> ListDatasets | list[DatasetCard]:
        cards = [dataset_card(dataset, self.version) for dataset in datasets().list()]
        return ListDatasets(cards) if self.version.lists_in_data else cards

    def get(self, dataset_id: str = "") -> DatasetCard:
        return self._full_card(datasets().get(dataset_id or dataset_id_in_query()))

    def delete(self) -> None:
        datasets().unregister(read_struct(DatasetUuidRequest).dataset_uuid)

    def unregister(self, dataset_id: str = "") -> None:
        datasets().unregister(dataset_id or read_struct(DatasetIdRequest).dataset_id)

    def paginated_rows(self) -> PaginatedRows:
        if request.args.get("filter_condition"):
            raise BadRequest("filter_condition", "is not supported: read all rows and filter them")
        dataset = datasets().get(dataset_id_in_query())
        start = int_in_query("page_token", 0)
        size = int_in_query("rows_in_page", ALL_ROWS, low=ALL_ROWS)
        rows = datasets().rows(dataset.id, start, size)
        end = start + len(rows)
        token = str(end) if end < dataset.num_rows else None
        return PaginatedRows(list(rows), dataset.num_rows, token)

    def iterated_rows(self, dataset_id: str) -> IteratedRows:
        dataset = datasets().get(dataset_id)
        start = int_in_query("start_index", 0)
        rows = datasets().rows(dataset.id, start, int_in_query("limit", ALL_ROWS, low=ALL_ROWS))
        return IteratedRows(list(rows), has_more=start + len(rows) < dataset.num_rows)

    def append_rows(self, dataset_id: str = "") -> None:
        if dataset_id:
            datasets().append_rows(dataset_id, read_struct(AppendedRows).rows)
        else:
            body = read_struct(AppendRowsRequest)
            datasets().append_rows(body.dataset_id, body.rows)

    def _full_card(self, dataset: RegisteredDataset) -> DatasetCard:
        """With the rows, if they are the dataset's source."""
        has_rows = dataset.source.get("type") == "rows"
        rows = datasets().rows(dataset.id, 0, ALL_ROWS) if has_rows else []
        return dataset_card(dataset, self.version, rows)


def to_source(source: DataSource) -> dict[str, Any]:
    """As the store takes it. A command line sends a `uri` without a type."""
    if source.type in (None, "uri") and source.uri is not None:
        return uri_source(source.uri, None)
    kind = source.type or ("rows" if source.rows is not None else None)
    values = {"type": kind, "uri": source.uri, "rows": source.rows}
    return {name: value for name, value in values.items() if value is not None}


def datasets() -> Datasets:
    return require_service().datasets


def register(
    dataset_id: str, url: str | Url, schema: dict[str, Any] | None, metadata: dict[str, Any] | None
) -> None:
    """Store a dataset of a client that has no purposes."""
    uri = url if isinstance(url, str) else url.uri
    datasets().register(dataset_id, DEFAULT_PURPOSE, uri_source(uri, schema), metadata)


def dataset_id_in_query() -> str:
    """dataset_id, or its name of the clients up to 0.0.41 or 0.0.50."""
    names = ("dataset_id", "dataset_identifier", "dataset_uuid")
    dataset_id = next((request.args[name] for name in names if request.args.get(name)), "")
    if not dataset_id:
        raise BadRequest("dataset_id", "is required in the query")
    return dataset_id


def int_in_query(name: str, default: int, low: int = 0) -> int:
    """Raises BadRequest for what is no whole number of at least `low`."""
    text = request.args.get(name, "")
    if not text:
        return default
    try:
        value = int(text)
    except ValueError:
        raise BadRequest(name, "must be a whole number", text) from None
    if value < low:
        raise BadRequest(name, f"must be at least {low}", value)
    return value
