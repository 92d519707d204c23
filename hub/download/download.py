"""Downloads and verifies all missing files: assigns pieces and hash ranges to workers.

One thread owns the state of the files and assigns the jobs; worker threads run them and report the results.
"""

import errno
from collections.abc import Callable
from itertools import islice
from threading import Event

from hub.client import Hub
from hub.download.blob import Blob, HashRange, ReceivePiece
from hub.download.disk_guard import DiskGuard
from hub.download.http_range import RangeClient, RangesUnsupported, SharedState
from hub.download.progress import Progress
from hub.download.retry import DownloadOptions
from hub.download.workers import DownloadWorkers
from inference.finding import Finding, Refused

TICK_S = 0.1  # seconds between two checks of disk and progress while no job ends
NO_SPACE_ERRORS = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


class Download:
    """A running download.

    unfinished  the files that are not complete and verified
    publish     adds a verified file to the cache
    """

    def __init__(
        self,
        name: str,
        blobs: list[Blob],
        publish: Callable[[Blob], None],
        disk_guard: DiskGuard,
        progress: Progress,
        options: DownloadOptions,
    ) -> None:
        self.name, self.unfinished, self.publish = name, blobs, publish
        self.disk_guard, self.progress, self.options = disk_guard, progress, options
        self.total_bytes = sum(blob.file.size for blob in blobs)
        self.state = SharedState(Event())

    def run(self, hub: Hub) -> None:
        """Download until all files are published.

        Raises Refused, TransientError, RequestDenied or OSError. The workers are stopped when it returns.
        """
        options = self.options
        client = RangeClient(hub, self.state, options.timeout_s, options.num_connections)
        workers: DownloadWorkers[ReceivePiece | HashRange] = DownloadWorkers(
            options.num_connections + options.num_hashers, lambda job: job(client, options.retry_policy)
        )
        try:
            self.publish_complete()
            while self.unfinished:
                self.disk_guard.check(self.total_bytes - self.missing_bytes, self.missing_bytes)
                self.submit_jobs(workers)
                if result := workers.next_result(TICK_S):
                    self.finish_job(*result)
                    self.publish_complete()
                self.report_progress()
            self.report_progress(now=True)
        finally:
            self.state.stop.set()
            workers.shutdown()
            self.progress.end()

    @property
    def missing_bytes(self) -> int:
        return sum(blob.file.size - blob.partial.written_bytes for blob in self.unfinished)

    def submit_jobs(self, workers: DownloadWorkers[ReceivePiece | HashRange]) -> None:
        """Assign jobs to all idle workers: hash jobs first, then missing pieces."""
        num_hashing = sum(isinstance(job, HashRange) for job in workers.running)
        num_receiving = len(workers.running) - num_hashing
        hash_jobs = filter(None, (blob.pending_hash() for blob in self.unfinished))
        for hash_job in islice(hash_jobs, self.options.num_hashers - num_hashing):
            hash_job.blob.is_hashing = True
            workers.submit(hash_job)
        receive_jobs = (receive_job for blob in self.unfinished for receive_job in blob.pending_pieces())
        for receive_job in list(islice(receive_jobs, self.options.num_connections - num_receiving)):
            receive_job.blob.busy_pieces.add(receive_job.index)
            workers.submit(receive_job)

    def finish_job(self, job: ReceivePiece | HashRange, error: BaseException | None) -> None:
        match job:
            case ReceivePiece():
                job.blob.busy_pieces.discard(job.index)
            case HashRange():
                job.blob.is_hashing, job.blob.hashed_bytes = False, job.stop
        match error:
            case None:
                return
            case RangesUnsupported():
                job.blob.supports_ranges = False
            case OSError() if error.errno in NO_SPACE_ERRORS:
                raise self.disk_guard.disk_full_error(self.missing_bytes) from error
            case _:
                raise error

    def publish_complete(self) -> None:
        """Publish the files that are complete and correct; restart the files with a wrong hash."""
        for blob in [blob for blob in self.unfinished if blob.is_complete]:
            if blob.is_correct:
                self.publish(blob)
                self.unfinished.remove(blob)
            elif blob.num_mismatches < self.options.max_refetches:
                blob.restart()
            else:
                raise Refused(self.corrupt_finding(blob))

    def corrupt_finding(self, blob: Blob) -> Finding:
        times = self.options.max_refetches + 1
        return Finding(
            "fetch",
            f"{blob.file.name} with the hash {blob.file.etag[:12]}…",
            f"a different hash, {times} times: {blob.hash.hexdigest()[:12]}…",
            False,
            "a proxy or mirror changes the file: try without HTTPS_PROXY, or another HF_ENDPOINT",
        )

    def report_progress(self, *, now: bool = False) -> None:
        done_bytes = self.total_bytes - self.missing_bytes
        if done_bytes < self.total_bytes or not self.unfinished:
            self.progress.show(
                f"fetching {self.name}", done_bytes, self.total_bytes, self.state.last_error, now=now
            )
        else:
            hashed_bytes = self.total_bytes - sum(
                blob.file.size - blob.hashed_bytes for blob in self.unfinished
            )
            self.progress.show(f"checking {self.name}", hashed_bytes, self.total_bytes)
