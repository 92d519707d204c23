"""Names resolve to the models that are served under them."""

import asyncio
from typing import Any, cast

import pytest

from inference.models import ModelEntry, Models, UnknownModel
from inference.served import MAX_SHOWN_CHARS, UnknownAdapter
from inference.types import GenerationRequest
from tests.fakes.fake_backend import FakeAdapters, FakeBackend

FIRST, SECOND = FakeBackend(model_id="acme/small"), FakeBackend(model_id="acme/large")
MODELS = Models(
    ModelEntry(FIRST, ("acme/small", "chat")), ModelEntry(SECOND, ("acme/large", "chat", "dummy", "small"))
)


@pytest.mark.parametrize(
    ("name", "backend", "card_name"),
    [
        ("acme/small", FIRST, "acme/small"),
        ("acme/large", SECOND, "acme/large"),
        ("chat", FIRST, "chat"),
        ("large", SECOND, "large"),
        ("small", SECOND, "small"),
        ("dummy", SECOND, "dummy"),
        ("tgi", FIRST, "acme/small"),
        ("", FIRST, "acme/small"),
        (None, FIRST, "acme/small"),
        ("http://127.0.0.1:8000", FIRST, "acme/small"),
        ("HTTPS://host.example/v1/", FIRST, "acme/small"),
    ],
)
def test_a_name_resolves_to_its_model(name: str | None, backend: FakeBackend, card_name: str) -> None:
    served = MODELS.resolve(name)
    assert (served.backend, served.adapter, served.card.name) == (backend, None, card_name)
    assert served.card.info == backend.info()


@pytest.mark.parametrize(
    "name",
    ["acme", "acme/", "Acme/Small", "other/small", "x" * 500, "https:/acme", "file:///acme", "ftp://acme"],
)
def test_an_unknown_name_is_an_error_that_lists_the_models(name: str) -> None:
    with pytest.raises(UnknownModel, match=r"this server has 'acme/small', 'acme/large'$") as error:
        MODELS.resolve(name)
    assert (error.value.status, error.value.name[:MAX_SHOWN_CHARS]) == (404, name[:MAX_SHOWN_CHARS])
    assert len(error.value.message) < MAX_SHOWN_CHARS + 100


def test_iteration_yields_each_listed_name_once_and_in_order() -> None:
    listed = [(served.card.name, served.backend) for served in MODELS]
    assert listed == [
        ("acme/small", FIRST),
        ("chat", FIRST),
        ("acme/large", SECOND),
        ("dummy", SECOND),
        ("small", SECOND),
    ]


def test_an_unlisted_name_resolves_and_is_not_shown() -> None:
    """vLLM's users name a model by its folder, as they gave it to the server."""
    entries = (ModelEntry(FIRST, ("acme/small",), ("/srv/small", "large")), ModelEntry(SECOND, ("large",)))
    models = Models(*entries)
    assert (models.resolve("/srv/small").backend, models.resolve("large").backend) == (FIRST, SECOND)
    assert models.has_model("/srv/small")
    assert [served.card.name for served in models] == ["acme/small", "large"]
    assert models.ids == "'acme/small', 'large'"


def test_the_first_model_is_the_default() -> None:
    assert (MODELS.default.backend, MODELS.default.card.name) == (FIRST, "acme/small")


def test_a_model_may_be_served_under_a_url() -> None:
    url = "https://models.example/large"
    models = Models(ModelEntry(FIRST, ("acme/small",)), ModelEntry(SECOND, ("acme/large", url)))
    assert models.resolve(url).backend is SECOND


def with_adapters(*names: str) -> FakeBackend:
    backend = FakeBackend(model_id="acme/small")
    backend.lora = FakeAdapters(*names)
    return backend


@pytest.mark.parametrize("name", ["poet", "acme/small:poet", "chat:poet", "small:poet"])
def test_the_name_of_an_adapter_resolves_to_its_backend(name: str) -> None:
    backend = with_adapters("poet")
    served = Models(ModelEntry(FakeBackend(), ("m",)), ModelEntry(backend, ("acme/small", "chat"))).resolve(
        name
    )
    assert (served.backend, served.adapter, served.card.name) == (backend, "poet", name)
    assert served.card.adapter == backend.lora.cards()[0] and served.card.info == backend.info()


@pytest.mark.parametrize("name", ["poe", "acme/small:poe", "other:poet", ":poet", "acme/small:acme/small"])
def test_other_names_are_no_adapters(name: str) -> None:
    models = Models(ModelEntry(with_adapters("poet"), ("acme/small",)))
    with pytest.raises(UnknownModel):
        models.resolve(name)


def test_adapters_come_and_go_and_are_listed_behind_the_models() -> None:
    backend = with_adapters("poet", "ft:small:local::1")
    models = Models(ModelEntry(backend, ("acme/small", "chat")))
    assert [served.card.name for served in models] == ["acme/small", "chat", "poet", "ft:small:local::1"]
    backend.lora.unload("poet")
    assert [served.card.name for served in models] == ["acme/small", "chat", "ft:small:local::1"]
    with pytest.raises(UnknownModel):
        models.resolve("poet")


def test_the_name_of_a_model_comes_before_that_of_an_adapter() -> None:
    models = Models(ModelEntry(with_adapters("chat"), ("acme/small", "chat")))
    assert models.resolve("chat").adapter is None
    assert models.has_model("chat") and models.has_model("small") and not models.has_model("poet")


def test_another_adapter_of_the_same_backend_is_found_by_its_name() -> None:
    models = Models(ModelEntry(with_adapters("poet"), ("acme/small",)))
    assert models.default.with_adapter("poet").adapter == "poet"
    with pytest.raises(UnknownAdapter, match="Adapter 'cook' not found"):
        models.default.with_adapter("cook")


def test_a_model_that_cannot_answer_is_named_if_there_are_several() -> None:
    one, other = FakeBackend(model_id="one"), FakeBackend(model_id="other")
    models = Models(ModelEntry(one, ("one",)), ModelEntry(other, ("other",)))
    assert models.unavailable_reason() == ""
    other.unready_reason = "its engine has failed"
    assert models.unavailable_reason() == "other: its engine has failed"
    assert Models(ModelEntry(other, ("other",))).unavailable_reason() == "its engine has failed"


def test_an_adapter_travels_in_the_request() -> None:
    backend = with_adapters("poet")
    models = Models(ModelEntry(backend, ("m",)))
    for name in ("m", "poet", "m:poet"):
        models.resolve(name).generate(GenerationRequest("hi"))
    assert [request.adapter for request in backend.requests] == [None, "poet", "poet"]


def remote_entry(model_id: str) -> ModelEntry:
    return ModelEntry(FakeBackend(model_id=model_id), (model_id,), is_remote=True)


def test_a_server_is_healthy_without_a_model_of_another_server() -> None:
    own, remote = FakeBackend(model_id="own"), remote_entry("remote")
    models = Models(remote, ModelEntry(own, ("own",)))
    remote.backend.unready_reason = "gone"
    assert models.unavailable_reason() == ""
    own.unready_reason = "stopped"
    assert models.unavailable_reason() == "own: stopped"


def test_models_of_other_servers_alone_are_unavailable_when_all_are() -> None:
    first, second = remote_entry("a"), remote_entry("b")
    first.backend.unready_reason = "gone"
    assert Models(first, second).unavailable_reason() == ""
    second.backend.unready_reason = "gone too"
    assert Models(first, second).unavailable_reason() == "a: gone"


def test_adapters_are_for_the_model_on_this_machine() -> None:
    own = FakeBackend(model_id="own")
    models = Models(remote_entry("remote"), ModelEntry(own, ("own",)))
    assert (models.default.card.name, models.own.backend) == ("remote", own)


def test_a_fine_tuned_model_comes_and_goes() -> None:
    tuned, models = FakeBackend(model_id="ft:small"), Models(ModelEntry(FIRST, ("acme/small",)))
    models.add(ModelEntry(tuned, ("ft:small",), is_remote=True, parent="acme/small"))
    served = models.resolve("ft:small")
    assert (served.backend, served.card.parent, served.adapter) == (tuned, "acme/small", None)
    assert models.is_removable("ft:small") and not models.is_removable("acme/small")
    assert [each.card.name for each in models] == ["acme/small", "ft:small"]
    assert models.own.backend is models.default.backend is FIRST
    models.remove("acme/small")
    models.remove("ft:small")
    assert models.backends == (FIRST,) and models.resolve("acme/small").card.parent is None
    with pytest.raises(UnknownModel):
        models.resolve("ft:small")


def test_a_model_that_comes_later_is_attached_to_the_event_loop() -> None:
    async def run() -> list[Any]:
        loop, models = asyncio.get_running_loop(), Models(ModelEntry(AttachedBackend(), ("first",)))
        models.attach(loop)
        models.add(ModelEntry(AttachedBackend(), ("second",), parent="first"))
        await asyncio.sleep(0)
        return [cast(AttachedBackend, backend).loop is loop for backend in models.backends]

    assert asyncio.run(run()) == [True, True]


class AttachedBackend(FakeBackend):
    loop: Any = None

    def attach(self, loop: asyncio.AbstractEventLoop) -> None:
        self.loop = loop
