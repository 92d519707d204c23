"""Every way in which a Hub refuses a model: what it is called, and what to do about it, in one line."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from checks.fetch import fetch
from checks.finding import Finding, Refused
from checks.source.hub import Hub
from checks.source.repository import Repository
from tests import hub, tiny
from tests.hub_faults import Says

LookUp = Callable[..., Repository]


@pytest.fixture
def refusal(look_up: LookUp) -> Callable[..., Finding]:
    def refused(*args: str, **changes: object) -> Finding:
        with pytest.raises(Refused) as caught:
            look_up(*args, **changes)
        finding = caught.value.finding
        assert not finding.ok and "\n" not in finding.have + finding.mend
        return finding

    return refused


Refusal = Callable[..., Finding]


@pytest.fixture
def shelf(fake: hub.Hub, tiny_repo: hub.Repo) -> None:
    """Models with names to choose from."""
    for name in ("acme/tiny-chat", "acme/large", "acme/tiny-v2", "other/tiny", "zoo/lynx-7b", "zoo/lynx-13b"):
        fake.repos[name] = tiny_repo


def test_a_gated_model_names_the_licence_page_and_the_setting(
    tiny_repo: hub.Repo, refusal: Refusal, client: Hub
) -> None:
    tiny_repo.gated = True
    finding = refusal()
    assert finding.have == "its authors ask for consent"
    assert finding.mend == (
        f"accept the licence at {client.endpoint}/acme/tiny, then put your token in HUGGINGFACE_ACCESS_TOKEN"
    )


def test_a_token_that_is_not_let_in_is_told_apart(tiny_repo: hub.Repo, refusal: Refusal, client: Hub) -> None:
    tiny_repo.gated = True
    finding = refusal(hub=replace(client, token=hub.STRANGER))
    assert "not let the account of your token in" in finding.have
    assert f"{client.endpoint}/acme/tiny" in finding.mend


@pytest.mark.parametrize("name", ["acme/tiny", "acme/nothing"])
@pytest.mark.parametrize("gated", [False, True])
def test_a_wrong_token_is_what_is_wrong_not_the_model(
    tiny_repo: hub.Repo, refusal: Refusal, client: Hub, name: str, gated: bool
) -> None:
    tiny_repo.gated = gated
    finding = refusal(name, hub=replace(client, token="hf_wrong"))
    assert finding.have == (
        "the token in HUGGINGFACE_ACCESS_TOKEN is wrong or has expired: "
        "Invalid credentials in Authorization header"
    )
    assert f"{client.endpoint}/settings/tokens" in finding.mend
    assert "hf_wrong" not in str(finding)


@pytest.mark.parametrize("token", ["„hf_good“", "hf_gööd", "hf_good hf_good"])
def test_what_cannot_be_a_token_is_not_sent_nor_shown(
    fake: hub.Hub, tiny_repo: hub.Repo, refusal: Refusal, client: Hub, token: str
) -> None:
    finding = refusal(hub=replace(client, token=token))
    assert "no token" in finding.have and "hf_g" not in str(finding)
    assert fake.requests == []


def test_a_line_end_behind_a_token_is_no_part_of_it(
    tiny_repo: hub.Repo, look_up: LookUp, client: Hub
) -> None:
    tiny_repo.gated = True
    assert look_up(hub=replace(client, token=f"{hub.TOKEN}\n")).commit == tiny_repo.commit


def test_a_token_without_the_right_is_told_what_the_hub_says(
    fake: hub.Hub, tiny_repo: hub.Repo, refusal: Refusal, client: Hub
) -> None:
    fake.names.denied["acme/tiny"] = (403, "Please enable access to gated repositories")
    finding = refusal(hub=replace(client, token=hub.TOKEN))
    assert finding.have == "the Hub says: Please enable access to gated repositories"
    assert "/settings/tokens" in finding.mend


def test_a_model_that_the_hub_has_closed_is_told(
    fake: hub.Hub, tiny_repo: hub.Repo, refusal: Refusal
) -> None:
    fake.names.denied["acme/tiny"] = (403, "Access to this resource is disabled.")
    assert refusal().have == "closed by the Hub for everybody"


def test_a_copy_that_is_here_is_served_where_the_hub_would_refuse_another(
    tiny_repo: hub.Repo, look_up: LookUp, refusal: Refusal, client: Hub
) -> None:
    folder = fetch(look_up(), client)
    tiny_repo.gated = True
    assert "consent" in refusal(anew=True).have
    assert look_up().folder == folder


def test_a_gated_model_opens_with_the_token(tiny_repo: hub.Repo, look_up: LookUp, client: Hub) -> None:
    tiny_repo.gated = True
    assert look_up(hub=replace(client, token=hub.TOKEN)).commit == tiny_repo.commit


@pytest.mark.parametrize(
    ("name", "first"),
    [
        ("acme/tinny", "acme/tiny"),
        ("acme/Tiny", "acme/tiny"),
        ("acme/tiny-chatt", "acme/tiny-chat"),
        ("amce/tiny-v2", "acme/tiny-v2"),
        ("zoo/lynx-7-b", "zoo/lynx-7b"),
        ("lynx-13b", "zoo/lynx-13b"),
    ],
)
def test_names_near_an_unknown_one_are_told(shelf: None, refusal: Refusal, name: str, first: str) -> None:
    finding = refusal(name)
    assert finding.have == "no such model, or a private one"
    assert finding.mend.startswith(f'MODEL_NAME = "{first}"')
    assert finding.mend.endswith("a private one needs your token in HUGGINGFACE_ACCESS_TOKEN")


def test_no_more_than_three_names_are_told_and_none_that_is_unlike(shelf: None, refusal: Refusal) -> None:
    told = refusal("acme/tiny-v").mend
    assert told.count('"') == 6 and "large" not in told


def test_a_hub_without_search_lists_nothing(fake: hub.Hub, shelf: None, refusal: Refusal) -> None:
    fake.names.searches = False
    assert refusal("acme/tinny").mend.startswith("check MODEL_NAME;")


def test_who_has_a_token_is_asked_for_the_owners(shelf: None, refusal: Refusal, client: Hub) -> None:
    mend = refusal("acme/tinny", hub=replace(client, token=hub.TOKEN)).mend
    assert mend.endswith("a private one needs the token of its owner in HUGGINGFACE_ACCESS_TOKEN")


@pytest.mark.parametrize("kind", ["dataset", "space"])
def test_what_is_no_model_is_called_what_it_is(fake: hub.Hub, refusal: Refusal, kind: str) -> None:
    fake.names.others["acme/words"] = kind
    finding = refusal("acme/words")
    assert finding.have == f"a {kind} of that name, and no model"
    assert "MODEL_NAME = " in finding.mend


def test_branches_and_tags_are_listed_where_a_version_is_not_known(
    tiny_repo: hub.Repo, refusal: Refusal
) -> None:
    tiny_repo.tags = ("v1.0", "v2.0", "fp16")
    finding = refusal("acme/tiny", "v2")
    assert (finding.need, finding.have) == ("acme/tiny at v2", "no such version")
    assert finding.mend == 'MODEL_REVISION = "v2.0"; there are v2.0, v1.0, main, fp16'


def test_of_many_tags_some_are_listed(tiny_repo: hub.Repo, refusal: Refusal) -> None:
    tiny_repo.tags = tuple(f"step{number}" for number in range(20))
    assert refusal("acme/tiny", "step7000").mend.endswith(" and 9 more")


def test_a_tag_is_a_version(tiny_repo: hub.Repo, look_up: LookUp) -> None:
    tiny_repo.tags = ("v1.0",)
    assert look_up("acme/tiny", "v1.0").commit == tiny_repo.commit


def test_a_renamed_model_is_found_and_fetched_by_its_old_name(
    fake: hub.Hub, tiny_repo: hub.Repo, look_up: LookUp, client: Hub
) -> None:
    tiny_repo.gated = True
    fake.names.moved["old/name"] = "acme/tiny"
    known = replace(client, token=hub.TOKEN)
    source = look_up("old/name", hub=known)
    assert (source.commit, source.now) == (tiny_repo.commit, "acme/tiny")
    assert (fetch(source, known) / "model.safetensors").stat().st_size == source.weights


def test_a_name_that_cannot_be_one_is_refused(refusal: Refusal) -> None:
    assert "owner/model" in refusal("acme//tiny").mend


def test_a_hub_that_is_down_is_named(refusal: Refusal, client: Hub) -> None:
    finding = refusal(hub=replace(client, endpoint="http://127.0.0.1:9"))
    assert "http://127.0.0.1:9 does not answer" in finding.have
    assert "HF_ENDPOINT" in finding.mend


@pytest.mark.parametrize(("status", "mend"), [(500, "try again later"), (503, "later"), (429, "wait")])
def test_a_hub_that_cannot_answer_now_says_nothing_of_the_model(
    fake: hub.Hub, tiny_repo: hub.Repo, refusal: Refusal, status: int, mend: str
) -> None:
    fake.broken = status
    finding = refusal()
    assert f"answers {status}" in finding.have and mend in finding.mend


def test_a_page_that_stands_before_the_network_is_shown(
    tiny_repo: hub.Repo, fake: hub.Hub, refusal: Refusal
) -> None:
    fake.names.denied["acme/tiny"] = (200, b"<html>Log in to this network")
    finding = refusal()
    assert "<html>Log in" in finding.have and "HTTPS_PROXY" in finding.mend


DEEP = b"[" * 5000 + b"]" * 5000


def test_an_answer_that_nobody_can_read_is_no_hubs(
    tiny_repo: hub.Repo, fake: hub.Hub, refusal: Refusal
) -> None:
    fake.names.denied["acme/tiny"] = (200, DEEP)
    assert "answers as no Hub does: it is nested deeper" in refusal().have


def test_an_answer_that_only_helps_is_left_out_where_nobody_can_read_it(fake: hub.Hub, client: Hub) -> None:
    fake.names.denied["acme/tiny"] = (200, DEEP)
    assert client.ask("/api/models/acme/tiny") == (200, None)


def test_a_hub_that_fails_half_way_is_named(tiny_repo: hub.Repo, refusal: Refusal) -> None:
    tiny_repo.faults["tokenizer_config.json"] = Says(502)
    assert "answers 502" in refusal().have


@pytest.mark.parametrize("status", [500, 503, 429])
def test_what_was_fetched_serves_while_the_hub_cannot_answer(
    fake: hub.Hub, tiny_repo: hub.Repo, look_up: LookUp, client: Hub, status: int
) -> None:
    folder = fetch(look_up(), client)
    fake.broken = status
    assert look_up().folder == folder


def test_a_folder_needs_no_hub(tmp_path: Path, fake: hub.Hub, look_up: LookUp) -> None:
    look_up(str(tiny.llama(tmp_path / "own")))
    assert fake.requests == []


def test_a_status_without_words_is_told_without_its_address(fake: hub.Hub, refusal: Refusal) -> None:
    fake.names.denied["acme/tiny"] = (418, b"")
    assert refusal("acme/tiny").have == "the Hub says: 418 I'm a Teapot"
