"""Where a test runs, when several processes share the tests: what is in one place is run by one, in turn.

A file is a place: its fixtures are made once. A folder whose tests share a server and put load on it is, too.
"""

from xdist.scheduler import LoadScopeScheduling

FOLDERS = ("tests/live/", "tests/clients/")


class Places(LoadScopeScheduling):
    def _split_scope(self, nodeid: str) -> str:
        file = nodeid.partition("::")[0]
        return next((folder for folder in FOLDERS if file.startswith(folder)), file)
