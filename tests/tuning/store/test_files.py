"""Files: what is kept of an upload, how long, and what a limit leaves behind."""

import dataclasses
import io

import pytest

from inference.errors import BadRequest, TooLarge
from settings.groups import TuningSettings
from tests.fakes.windows_files import rename_as_windows
from tests.tuning.conftest import MakeService
from tests.tuning.scripted_service import create_job, upload
from tuning.service import TuningService
from tuning.store.files import UnknownFile
from tuning.store.schema import FILES


def expire(service: TuningService, id: str) -> None:
    """Move the expiry of a file into the past."""
    past = dataclasses.replace(service.files.get(id), expires=1)
    service._database.run(FILES.update, past)


def test_an_expired_file_is_unknown_and_deleted(service: TuningService) -> None:
    expired_id, other_id = upload(service), upload(service)
    expire(service, expired_id)
    with pytest.raises(UnknownFile, match=f"No such File object: {expired_id}"):
        service.files.get(expired_id)
    service.files._next_sweep = 0.0
    assert [file.id for file in service.files.list(limit=10).values] == [other_id]
    assert [path.name for path in (service.folder / "files").iterdir()] == [other_id]


def test_an_expired_file_stays_until_its_job_has_ended(service: TuningService) -> None:
    job = create_job(service, {"hold_at": 1})
    expire(service, job.request.training)
    service.files._next_sweep = 0.0
    service.files.list(limit=1)
    assert (service.folder / "files" / job.request.training).exists()
    service.jobs.cancel(job.id)


def test_a_file_over_the_limit_leaves_nothing(open_services: MakeService) -> None:
    service = open_services(TuningSettings(max_file_bytes=1000))
    with pytest.raises(TooLarge, match=r"file exceeds 0.001 MB: send a smaller one, or raise MAX_FILE_MB"):
        service.files.create(io.BytesIO(b" " * 1001), "a", "batch")
    assert list((service.folder / "files").iterdir()) == []


@pytest.mark.system("posix")
def test_contents_are_for_the_servers_user_alone(service: TuningService) -> None:
    path = service.files.content(upload(service))
    assert path.stat().st_mode & 0o777 == 0o600 and path.parent.stat().st_mode & 0o777 == 0o700


def test_a_page_begins_behind_a_file_that_exists(service: TuningService) -> None:
    with pytest.raises(BadRequest, match="after must be the id of a listed object"):
        service.files.list(limit=1, after="file-x")


def test_an_upload_is_closed_before_it_gets_its_name(
    service: TuningService, monkeypatch: pytest.MonkeyPatch
) -> None:
    rename_as_windows(monkeypatch)
    assert service.files.content(upload(service)).is_file()
