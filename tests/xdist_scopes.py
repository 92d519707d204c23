"""How tests are distributed over processes: the tests of one scope run in one process, in order.

A file is a scope, so that its fixtures are made once. A folder whose tests share a server and put load on it
is one too.
"""

from xdist.scheduler import LoadScopeScheduling

FOLDERS = ("tests/live/", "tests/clients/")


class Places(LoadScopeScheduling):
    def _split_scope(self, nodeid: str) -> str:
        file = nodeid.partition("::")[0]
        return next((folder for folder in FOLDERS if file.startswith(folder)), file)
