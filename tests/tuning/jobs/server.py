"""Servers for the tests of restarts: each runs the tuning service in a folder until it is killed.

python -m tests.tuning.jobs.server; for each folder in standard input it forks a server, which prints its
process id once it is ready. The libraries are imported once, which takes longer than a test of a server.
"""

import os
import signal
import sys
import time
from pathlib import Path

from tests.tuning.scripted_service import RecordingAdapters, make_service


def run_server(folder: Path) -> None:
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    service = make_service(folder, RecordingAdapters())
    print(os.getpid(), flush=True)
    time.sleep(600)
    service.close()


if __name__ == "__main__":
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # a server that was killed is gone, not a zombie
    for line in sys.stdin:
        if not os.fork():
            run_server(Path(line.rstrip("\n")))
