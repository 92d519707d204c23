"""Llama Stack's dataset and row routes in the paths of every generation. Entry point: make_routes."""

from collections.abc import Iterable
from typing import Any

from api.llama_stack.datasets.protocol import (
    AppendedRows,
    AppendRowsRequest,
    CreateDatasetRequest,
    DatasetCard,
    DatasetIdRequest,
    DatasetUuidRequest,
    IteratedRows,
    ListDatasets,
    PaginatedRows,
    RegisterDatasetRequest,
    RegisterDefinitionRequest,
    RegisterUrlRequest,
)
from api.llama_stack.datasets.routes import DatasetRoutes
from api.llama_stack.protocol.errors import LlamaStackErrorResponse
from api.llama_stack.tuning_route import TuningRoute
from api.llama_stack.versions import ALPHA, ROOT, ProtocolVersion
from api.openapi.operation import Operation

GET_QUERY = {"dataset_id": "The dataset's name. `dataset_identifier` and `dataset_uuid` are accepted too."}
PAGE_QUERY = {
    "dataset_id": "The dataset's name.",
    "rows_in_page": "Number of rows; -1: all.",
    "page_token": "`next_page_token` of the page before.",
}
ITERATE_QUERY = {"start_index": "Index of the first row.", "limit": "Number of rows; all by default."}


def make_routes(version: ProtocolVersion) -> Iterable[TuningRoute]:
    """The routes below the version's prefix."""
    datasets = DatasetRoutes(version)
    if version.lists_in_data:
        yield from _routes_since_v1(datasets)
    else:
        yield from _routes_before_v1(datasets, version)


def _routes_before_v1(datasets: DatasetRoutes, version: ProtocolVersion) -> Iterable[TuningRoute]:
    listed, page = list[DatasetCard], PAGE_QUERY
    yield TuningRoute("GET", "/datasets/list", datasets.list, _operation("List the datasets", listed))
    get = _operation("Show a dataset", DatasetCard, query=GET_QUERY)
    yield TuningRoute("GET", "/datasets/get", datasets.get, get)
    rows = _operation("List the rows of a dataset", PaginatedRows, query=page)
    yield TuningRoute("GET", "/datasetio/get rows paginated", datasets.paginated_rows, rows)
    if version is ROOT:
        create = _operation("Store a dataset", None, body=CreateDatasetRequest)
        yield TuningRoute("POST", "/datasets/create", datasets.create, create)
        register = _operation("Store a dataset", None, body=RegisterDefinitionRequest)
        yield TuningRoute("POST", "/datasets/register", datasets.register_definition, register)
        delete = _operation("Delete a dataset", None, body=DatasetUuidRequest)
        yield TuningRoute("POST", "/datasets/delete", datasets.delete, delete)
    if version is ALPHA:
        register = _operation("Store a dataset", None, body=RegisterUrlRequest)
        yield TuningRoute("POST", "/datasets/register", datasets.register_url, register)
        unregister = _operation("Delete a dataset", None, body=DatasetIdRequest)
        yield TuningRoute("POST", "/datasets/unregister", datasets.unregister, unregister)
        append = _operation("Append rows to a dataset", None, body=AppendRowsRequest)
        yield TuningRoute("POST", "/datasetio/append rows", datasets.append_rows, append)


def _routes_since_v1(datasets: DatasetRoutes) -> Iterable[TuningRoute]:
    by_id = "<path:dataset_id>"
    register = _operation("Store a dataset", DatasetCard | None, body=RegisterDatasetRequest)
    yield TuningRoute("POST", "/datasets", datasets.register_source, register)
    yield TuningRoute("GET", "/datasets", datasets.list, _operation("List the datasets", ListDatasets))
    get, delete = _operation("Show a dataset", DatasetCard), _operation("Delete a dataset", None)
    yield TuningRoute("GET", f"/datasets/{by_id}", datasets.get, get)
    yield TuningRoute("DELETE", f"/datasets/{by_id}", datasets.unregister, delete)
    rows = _operation("List the rows of a dataset, by pages", PaginatedRows, query=PAGE_QUERY)
    yield TuningRoute("GET", "/datasetio/rows", datasets.paginated_rows, rows)
    append = _operation("Append rows to a dataset", None, body=AppendRowsRequest)
    yield TuningRoute("POST", "/datasetio/rows", datasets.append_rows, append)
    iterate = _operation("List the rows of a dataset", IteratedRows, query=ITERATE_QUERY)
    yield TuningRoute("GET", f"/datasetio/iterrows/{by_id}", datasets.iterated_rows, iterate)
    append = _operation("Append rows to a dataset", None, body=AppendedRows)
    yield TuningRoute("POST", f"/datasetio/append rows/{by_id}", datasets.append_rows, append)


def _operation(summary: str, response: Any, **fields: Any) -> Operation:
    return Operation(summary, response=response, error=LlamaStackErrorResponse, **fields)
