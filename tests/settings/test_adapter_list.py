"""LORA_ADAPTERS: TGI's and vLLM's forms, the names of adapters, and what is refused."""

from typing import Any

import pytest

from settings.adapter_list import AdapterEntry, default_scales, parse_entry, to_adapters, to_scaled_adapters
from tests.settings.conftest import Complaint


@pytest.mark.parametrize(
    ("item", "entry"),
    [
        ("acme/poet", AdapterEntry("acme/poet", "acme/poet")),
        ("acme/poet@v1", AdapterEntry("acme/poet", "acme/poet", "v1")),
        ("poet=/data/poet", AdapterEntry("poet", "/data/poet")),
        ("poet=acme/poet@v1", AdapterEntry("poet", "acme/poet", "v1")),
        ("/data/poet", AdapterEntry("poet", "/data/poet")),
        ("./poet", AdapterEntry("poet", "./poet")),
        ("/data/poet*0.5", AdapterEntry("poet", "/data/poet", scale=0.5)),
        ("poet=acme/poet@v1*-2", AdapterEntry("poet", "acme/poet", "v1", scale=-2.0)),
        ("poet=/data/a*b", AdapterEntry("poet", "/data/a*b")),
        ("ft:demo:local::12ab=/data/x", AdapterEntry("ft:demo:local::12ab", "/data/x")),
    ],
)
def test_an_item_names_an_adapter_and_its_source(item: str, entry: AdapterEntry) -> None:
    assert parse_entry(item) == entry


@pytest.mark.parametrize(
    ("value", "items"),
    [
        ("", ()),
        (" a=/x , acme/b,", ("a=/x", "acme/b")),
        (["a=/x", "b=/y"], ("a=/x", "b=/y")),
        ('{"name": "a", "path": "/x", "base_model_name": "m"}, b=/y', ("a=/x", "b=/y")),
        ('{"name":"a","path":"/x"},{"name":"b","path":"/y"}', ("a=/x", "b=/y")),
    ],
)
def test_items_are_separated_by_commas(value: Any, items: tuple[str, ...]) -> None:
    assert to_adapters(value) == items


@pytest.mark.parametrize(
    "value",
    [
        "a=b=c", "a@b@c", "=x", "a=", "a=/x,a=/y", "a@", "../x=/x", "a..b=/x", "é=/x", "a" * 201 + "=/x",
        '{"name":"a"}', '{"name":"a","path":1}', '{"name":"a","path":"/x"} b=/y', '{"name":', "[]x",
        '{"name":"a","path":"/x","rank":8}', 7, "-a=/x", "a=/x*101", "*0.5",
    ],
)  # fmt: skip
def test_other_values_are_refused(value: Any) -> None:
    with pytest.raises(ValueError):
        to_adapters(value)


@pytest.mark.parametrize(
    ("value", "items"),
    [
        ("/x/a:0.5", ("/x/a*0.5",)),
        ("/x/a:0.5,C:/b.gguf:-1", ("/x/a*0.5", "C:/b.gguf*-1")),
        ("/x/a,0.5,/x/b,1", ("/x/a*0.5", "/x/b*1")),
    ],
)
def test_llama_cpps_scales_are_read(value: str, items: tuple[str, ...]) -> None:
    assert to_scaled_adapters(value) == items


@pytest.mark.parametrize(
    "value", ["", "/x/a", "/x/a,", "/x/a:", "/x/a:b", "/x/a:nan", "/x/a,0.5,/x/b", "/x/a:1,b"]
)
def test_other_lists_of_scales_are_refused(value: str) -> None:
    with pytest.raises(ValueError):
        to_scaled_adapters(value)


def test_scales_that_are_0_are_no_default() -> None:
    assert default_scales(("a=/x*0.5", "b=/y", "c=/z*0")) == {"a": 0.5}


def test_the_refusal_says_the_forms(complaint: Complaint) -> None:
    message = complaint(LORA_ADAPTERS="a=b=c")
    assert message.startswith("here: LORA_ADAPTERS must be adapters with commas between them, each id,")
    assert message.endswith("not 'a=b=c'")
