"""Datasets: rows under a name that grow, are read in pages, and are gone when they are unregistered."""

from typing import Any

import pytest

from inference.errors import BadRequest
from tests.tuning.scripted_service import ROW, create_job, wait_for_job
from tuning.service import TuningService
from tuning.store.datasets import UnknownDataset

ROWS = [{"text": f"row {number} ü"} for number in range(5)]


def register(service: TuningService, id: str = "d", rows: list[Any] | None = None) -> str:
    source = {"type": "rows", "rows": ROWS if rows is None else rows}
    return service.datasets.register(id, "post-training/messages", source).id


def test_rows_are_read_in_pages(service: TuningService) -> None:
    register(service)
    assert service.datasets.rows("d", 0, -1) == ROWS
    assert service.datasets.rows("d", 1, 2) == ROWS[1:3]
    assert service.datasets.rows("d", 4, 10) == ROWS[4:] and service.datasets.rows("d", 9, 10) == []
    dataset = service.datasets.get("d")
    assert (dataset.num_rows, dataset.source) == (5, {"type": "rows"})


def test_a_dataset_grows(service: TuningService) -> None:
    register(service)
    assert service.datasets.append_rows("d", [{"text": "new"}]).num_rows == 6
    assert service.datasets.rows("d", 4, -1) == [ROWS[4], {"text": "new"}]


def test_rows_that_a_killed_server_did_not_count_do_not_exist(service: TuningService) -> None:
    register(service)
    path = service.folder / "datasets" / service.datasets.get("d").content
    with path.open("ab") as file:
        file.write(b'{"half')
    assert service.datasets.rows("d", 0, -1) == ROWS
    service.datasets.append_rows("d", [{"text": "new"}])
    assert service.datasets.rows("d", 5, -1) == [{"text": "new"}]


def test_an_absent_id_is_made(service: TuningService) -> None:
    assert register(service, "").startswith("dataset-")


def test_an_unregistered_dataset_is_gone(service: TuningService) -> None:
    register(service)
    service.datasets.unregister("d")
    assert service.datasets.list() == [] and list((service.folder / "datasets").iterdir()) == []
    for action in (service.datasets.get, service.datasets.unregister):
        with pytest.raises(UnknownDataset, match="Dataset 'd' not found"):
            action("d")


@pytest.mark.parametrize(
    ("id", "rows", "words"),
    [
        ("../d", ROWS, "must be 1 to 200 letters"),
        ("a/../b", ROWS, "must be 1 to 200 letters"),
        ("x" * 201, ROWS, "must be 1 to 200 letters"),
        ("taken", ROWS, "already exists"),
        ("d", [], "has no rows"),
        ("d", [{"a": 1}, [1]], r"rows\[1\] must be a JSON object"),
    ],
)
def test_a_dataset_that_cannot_be_registered_leaves_nothing(
    service: TuningService, id: str, rows: list[Any], words: str
) -> None:
    register(service, "taken")
    with pytest.raises(BadRequest, match=words):
        register(service, id, rows)
    assert len(list((service.folder / "datasets").iterdir())) == len(service.datasets.list()) == 1


def test_a_refused_row_is_not_appended(service: TuningService) -> None:
    register(service)
    with pytest.raises(BadRequest, match=r"rows\[1\]"):
        service.datasets.append_rows("d", [{"a": 1}, "x"])
    assert service.datasets.rows("d", 0, -1) == ROWS


def test_a_job_trains_on_a_copy_of_the_rows(service: TuningService) -> None:
    register(service, rows=[ROW])
    job = create_job(service, training="d")
    service.datasets.unregister("d")
    assert wait_for_job(service, job.id).status == "succeeded"
