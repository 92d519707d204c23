"""The README's table of findings has a row for each, and the JSON has the keys that it says."""

import ast
import json
import re
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path

from checks import every
from checks.finding import Finding
from checks.nearest import Configuration
from checks.source.file import File

ROOT = Path(__file__).parent.parent.parent
README = (ROOT / "README.md").read_text()
COMPUTED = {"RAM", "GPU"}  # names that follow from where a part of the model is


def names_in(path: Path) -> Iterator[str]:
    """The names that findings are made with in a file, where they are written out."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "Finding" and node.args:
            first = node.args[0]
            if isinstance(first, ast.Constant):
                yield str(first.value)


def test_every_finding_is_in_the_readme_and_no_other() -> None:
    table = README.partition("| finding | what it says |")[2].partition("\n\n")[0]
    firsts = [row.split("|")[1] for row in table.splitlines() if row.startswith("| `")]
    told = {name for first in firsts for name in re.findall(r"`([^`]+)`", first)}
    made = {name for path in (ROOT / "checks").rglob("*.py") for name in names_in(path)} | COMPUTED
    assert told == made


def test_the_json_has_the_keys_that_the_readme_says() -> None:
    shape = re.search(r"`(\{\"ok\".*?\})`", README, re.DOTALL)
    assert shape
    finding = Finding("disk", "2", "1", False, "more")
    near = Configuration({"QUANTISE": "int8"}, "1 GB", 2048)
    verdict = json.loads(every.as_json([finding], [near], [File("config.json", 100, here=False)]))
    told = set(re.findall(r'"(\w+)"', shape[1]))
    assert told == {*verdict, *verdict["findings"][0], *verdict["fitting"][0], *verdict["fetch"][0]}
    assert set(verdict["findings"][0]) == {item.name for item in fields(Finding)}
