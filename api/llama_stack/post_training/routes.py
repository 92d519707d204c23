"""The views of the post-training routes: they translate between bodies and the tuning service's jobs."""

from flask import request

from api.body.json_body import read_struct
from api.hooks.tuning_access import require_service
from api.llama_stack.post_training.field_names import named_as_sent
from api.llama_stack.post_training.inline_datasets import registered_datasets
from api.llama_stack.post_training.parse import RequestParser, read_request
from api.llama_stack.post_training.protocol import (
    CancelRequest,
    JobArtifacts,
    JobLogs,
    JobStatus,
    ListPostTrainingJobs,
    PostTrainingJob,
    PreferenceOptimizeRequest,
    SupervisedFineTuneRequest,
)
from api.llama_stack.post_training.replies import job_artifacts, job_logs, job_status
from api.llama_stack.tuning_errors import InvalidValue
from api.llama_stack.versions import ROOT, ProtocolVersion
from inference.errors import BadRequest, NotFound
from inference.lora.fence import Fence
from inference.models import Models
from settings.groups import ServerSettings
from tuning.types import Checkpoint, Job, JobRequest

MAX_LISTED = 10_000
MISSING_JOB_UUID = "is required: the clients 0.4.5 to 0.6.1 leave it out, 0.3 and 0.7 send it"


class PostTrainingRoutes:
    def __init__(self, version: ProtocolVersion, models: Models, settings: ServerSettings) -> None:
        self.version = version
        self.parser = RequestParser(models, Fence(settings.adapter_dirs))

    def supervised_fine_tune(self) -> PostTrainingJob:
        body = read_request(SupervisedFineTuneRequest)
        with registered_datasets(body, require_service()) as datasets:
            return create_job(self.parser.supervised(body, datasets))

    def preference_optimize(self) -> PostTrainingJob:
        body = read_request(PreferenceOptimizeRequest)
        with registered_datasets(body, require_service()) as datasets:
            return create_job(self.parser.preference(body, datasets))

    def list_jobs(self) -> ListPostTrainingJobs | list[PostTrainingJob]:
        jobs = [PostTrainingJob(job.id) for job in require_service().jobs.list(limit=MAX_LISTED).values]
        return ListPostTrainingJobs(jobs) if self.version.lists_in_data else jobs

    def status(self, job_uuid: str = "") -> JobStatus:
        job = find_job(job_uuid)
        return job_status(job, checkpoints_of(job), says_running=self.version is ROOT)

    def artifacts(self, job_uuid: str = "") -> JobArtifacts:
        job = find_job(job_uuid)
        return job_artifacts(job, checkpoints_of(job))

    def logs(self, job_uuid: str = "") -> JobLogs:
        job = find_job(job_uuid)
        events = require_service().jobs.events(job.id, limit=MAX_LISTED).values
        return job_logs(job, events[::-1])

    def cancel(self) -> None:
        if not request.get_data():
            raise BadRequest("job_uuid", MISSING_JOB_UUID)
        self.cancel_by_path(read_struct(CancelRequest).job_uuid)

    def cancel_by_path(self, job_uuid: str) -> None:
        with named_as_sent():
            require_service().jobs.cancel(job_uuid)


def create_job(job_request: JobRequest) -> PostTrainingJob:
    """Raises InvalidValue if the name is taken: clients would send a request with status 409 again."""
    jobs = require_service().jobs
    try:
        jobs.get(job_request.job_id)
    except NotFound:
        with named_as_sent():
            return PostTrainingJob(jobs.create(job_request).id)
    raise InvalidValue(f"Job '{job_request.job_id}' already exists")


def find_job(job_uuid: str) -> Job:
    """The job in the path, or in the query."""
    name = job_uuid or request.args.get("job_uuid", "")
    if not name:
        raise BadRequest("job_uuid", MISSING_JOB_UUID)
    job: Job = require_service().jobs.get(name)
    return job


def checkpoints_of(job: Job) -> list[Checkpoint]:
    """Oldest first."""
    return require_service().jobs.checkpoints(job.id, limit=MAX_LISTED).values[::-1]
