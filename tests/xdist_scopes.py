"""How tests are distributed over processes: the tests of one scope run in one process, in order.

A file is a scope, so that its fixtures are made once. A folder whose tests share a server and put load on it
is one too.
"""

FOLDERS = ("tests/live/", "tests/clients/")


def scope_of(nodeid: str) -> str:
    """The scope of a test: its folder or its file."""
    file = nodeid.partition("::")[0]
    return next((folder for folder in FOLDERS if file.startswith(folder)), file)
