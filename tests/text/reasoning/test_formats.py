"""Which format a chat template has."""

import pytest

from inference.text.reasoning.formats import detect_format
from tests.text.reasoning.family_reasoning import FAMILIES, THINK_TEMPLATE


@pytest.mark.parametrize("name", FAMILIES)
def test_every_familys_template_shows_a_format(name: str) -> None:
    assert detect_format(FAMILIES[name].template) is not None


def test_a_template_without_markers_has_no_format() -> None:
    assert detect_format("{{ message.role }}: {{ message.content }} You think, and answer.") is None


def test_a_wrapper_counts_only_where_the_template_has_it() -> None:
    plain, wrapped = detect_format(THINK_TEMPLATE), detect_format(FAMILIES["hunyuan-a13b"].template)
    assert plain is not None and wrapped is not None
    assert "<answer>" not in plain.markers
    assert "<answer>" in wrapped.markers
