"""A dataset as Llama Stack's routes show it."""

from collections.abc import Sequence
from typing import Any

from api.llama_stack.datasets.protocol import DatasetCard, Url
from api.llama_stack.datasets.row_source import SCHEMA
from api.llama_stack.versions import ROOT, ProtocolVersion
from api.model_card import PROVIDER_ID
from tuning.store.schema import RegisteredDataset


def dataset_card(
    dataset: RegisteredDataset, version: ProtocolVersion, rows: Sequence[dict[str, Any]] = ()
) -> DatasetCard:
    """A dataset as clients see it. rows: shown in the source if the client sent them there."""
    source = {name: value for name, value in dataset.source.items() if name != SCHEMA}
    schema = dict(dataset.source.get(SCHEMA, {}))
    uri = source.get("uri", "")
    if source.get("type") == "rows":
        source["rows"] = list(rows)
    return DatasetCard(
        identifier=dataset.id,
        provider_id=PROVIDER_ID,
        provider_resource_id=dataset.id,
        purpose=dataset.purpose,
        source=source,
        metadata=dict(dataset.metadata),
        dataset_schema=schema,
        url=uri if version is ROOT else Url(uri),
        columns=schema,
        content_url=uri,
    )
