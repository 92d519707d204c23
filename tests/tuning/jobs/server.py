"""A server for the tests of restarts: runs the tuning service in a folder until it is killed.

python -m tests.tuning.jobs.server FOLDER; prints "ready".
"""

import sys
import time
from pathlib import Path

from tests.tuning.scripted_service import RecordingAdapters, make_service

if __name__ == "__main__":
    service = make_service(Path(sys.argv[1]), RecordingAdapters())
    print("ready", flush=True)
    time.sleep(600)
