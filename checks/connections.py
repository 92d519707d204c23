"""May the server have as many connections open as its settings let clients in?"""

from checks.finding import Finding

ITSELF = 256  # files: libraries, weights, workers, the log
EACH = 2  # connections for each request that is taken: its own, and one that is told to come back later


def check(requests: int, open_files: int) -> Finding:
    """`requests`: those that are answered or wait at a time; `open_files`: what the system allows at most."""
    need = ITSELF + EACH * requests
    told = f"{need}, for {requests} requests at a time"
    if need <= open_files:
        return Finding("open files", told, str(open_files), True)
    fits = max(1, (open_files - ITSELF) // EACH)
    mend = f"ulimit -n {need} before the start, or MAX_CONCURRENT_REQUESTS = {fits}"
    return Finding("open files", told, f"{open_files}, the limit of ulimit -n", False, mend)
