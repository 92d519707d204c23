"""Values of Parquet become those of JSON."""

import json
from datetime import datetime
from decimal import Decimal
from typing import Any

import pytest

from tuning.data.parquet import json_value


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ({"a": [1, "x", None, True, 1.5]}, {"a": [1, "x", None, True, 1.5]}),
        ({"a": datetime(2026, 1, 2, 3, 4)}, {"a": "2026-01-02 03:04:00"}),
        ({"image": {"bytes": b"\x89PNG", "path": "x.png"}}, {"image": {"bytes": None, "path": "x.png"}}),
        ([("key", float("nan"))], [["key", None]]),
        ({"a": Decimal("1.50")}, {"a": "1.50"}),
    ],
)
def test_values_become_those_of_json(value: Any, expected: Any) -> None:
    assert json_value(value) == expected
    json.dumps(json_value(value), allow_nan=False)
