"""Can the server listen where it is told to?"""

from checks.finding import Finding

MENDS = (
    ("in use", "stop the program that listens there, or set {name} to another number"),
    ("denied", "ports below 1024 belong to the system: set {name} to 1024 or more"),
)


def check(host: str, port: int, taken: str, name: str = "PORT") -> Finding:
    """`taken`: why host:port cannot be listened on, empty where it can; `name`: the setting that says so."""
    where = f"{host}:{port}"
    if not taken:
        return Finding("port", where, "free", True)
    mend = next((mend for word, mend in MENDS if word in taken), "set HOST to an address of this machine")
    return Finding("port", where, taken, False, mend.format(name=name))
