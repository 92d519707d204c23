"""docs/operations.md has a row for every finding in its table, and every key of the JSON."""

import ast
import json
import re
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path

from checks import report
from checks.suggestions import Configuration
from hub.repository import RepoFile
from inference.finding import Finding

ROOT = Path(__file__).parent.parent.parent
OPERATIONS = (ROOT / "docs/operations.md").read_text()
COMPUTED = {"RAM", "GPU"}  # names that depend on the device of a part of the model


def names_in(path: Path) -> Iterator[str]:
    """The literal names of the findings that a file creates."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "Finding" and node.args:
            first = node.args[0]
            if isinstance(first, ast.Constant):
                yield str(first.value)


def test_the_docs_list_every_finding_and_no_other() -> None:
    table = OPERATIONS.partition("| finding | what it says |")[2].partition("\n\n")[0]
    firsts = [row.split("|")[1] for row in table.splitlines() if row.startswith("| `")]
    listed_names = {name for first in firsts for name in re.findall(r"`([^`]+)`", first)}
    files = [path for top in ("checks", "hub", "startup") for path in (ROOT / top).rglob("*.py")]
    names_in_code = {name for path in files for name in names_in(path)} | COMPUTED
    assert listed_names == names_in_code


def test_the_json_has_the_keys_in_the_docs() -> None:
    shape = re.search(r"`(\{\"ok\".*?\})`", OPERATIONS, re.DOTALL)
    assert shape
    finding = Finding("disk", "2", "1", False, "more")
    near = Configuration({"QUANTIZE": "int8"}, "1 GB", 2048)
    verdict = json.loads(
        report.format_json([finding], [near], [RepoFile("config.json", 100, is_local=False)])
    )
    keys = set(re.findall(r'"(\w+)"', shape[1]))
    assert keys == {*verdict, *verdict["findings"][0], *verdict["fitting"][0], *verdict["fetch"][0]}
    assert set(verdict["findings"][0]) == {"mend", *(item.name for item in fields(Finding))}
