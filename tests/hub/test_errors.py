"""Every way in which the Hub refuses a model: the reason and the fix, in one line each."""

import re
import ssl
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from huggingface_hub import close_session
from huggingface_hub.errors import OfflineModeIsEnabled

from hub.client import Hub
from hub.download import fetch
from hub.errors import HubUnavailable, explain_hub_errors
from hub.repository import Repository
from inference.finding import Finding, Refused
from tests.fakes import fake_hub
from tests.fakes.fake_hub_faults import ErrorStatus
from tests.tiny_models import tiny

LookUp = Callable[..., Repository]


@pytest.fixture
def refusal(look_up: LookUp) -> Callable[..., Finding]:
    def refused(*args: str, **changes: object) -> Finding:
        with pytest.raises(Refused) as caught:
            look_up(*args, **changes)
        finding = caught.value.finding
        assert not finding.ok and "\n" not in finding.have + finding.fix
        return finding

    return refused


Refusal = Callable[..., Finding]


@pytest.fixture
def shelf(fake: fake_hub.FakeHub, tiny_repo: fake_hub.Repo) -> None:
    """Models with names to choose from."""
    for name in ("acme/tiny-chat", "acme/large", "acme/tiny-v2", "other/tiny", "zoo/lynx-7b", "zoo/lynx-13b"):
        fake.repos[name] = tiny_repo


def test_a_gated_model_names_the_licence_page_and_the_setting(
    tiny_repo: fake_hub.Repo, refusal: Refusal, client: Hub
) -> None:
    tiny_repo.gated = True
    finding = refusal()
    assert finding.have == "gated: the authors require consent to the licence"
    assert finding.fix == (
        f"accept the licence at {client.endpoint}/acme/tiny, then put your token in HUGGINGFACE_ACCESS_TOKEN"
    )


def test_a_token_without_access_to_a_gated_model_is_reported_as_such(
    tiny_repo: fake_hub.Repo, refusal: Refusal, client: Hub
) -> None:
    tiny_repo.gated = True
    finding = refusal(hub=replace(client, token=fake_hub.STRANGER))
    assert "not granted access to the account of your token" in finding.have
    assert f"{client.endpoint}/acme/tiny" in finding.fix


@pytest.mark.parametrize("name", ["acme/tiny", "acme/nothing"])
@pytest.mark.parametrize("gated", [False, True])
def test_a_wrong_token_is_blamed_instead_of_the_model(
    tiny_repo: fake_hub.Repo, refusal: Refusal, client: Hub, name: str, gated: bool
) -> None:
    tiny_repo.gated = gated
    finding = refusal(name, hub=replace(client, token="hf_wrong"))
    assert finding.have == (
        "the token in HUGGINGFACE_ACCESS_TOKEN is wrong or has expired: "
        "Invalid credentials in Authorization header"
    )
    assert f"{client.endpoint}/settings/tokens" in finding.fix
    assert "hf_wrong" not in str(finding)


@pytest.mark.parametrize("token", ["„hf_good“", "hf_gööd", "hf_good hf_good"])
def test_a_malformed_token_is_neither_sent_nor_shown(
    fake: fake_hub.FakeHub, tiny_repo: fake_hub.Repo, refusal: Refusal, client: Hub, token: str
) -> None:
    finding = refusal(hub=replace(client, token=token))
    assert "not a token" in finding.have and "hf_g" not in str(finding)
    assert fake.requests == []


def test_a_newline_after_a_token_is_ignored(tiny_repo: fake_hub.Repo, look_up: LookUp, client: Hub) -> None:
    tiny_repo.gated = True
    assert look_up(hub=replace(client, token=f"{fake_hub.TOKEN}\n")).commit == tiny_repo.commit


def test_a_token_without_permission_gets_the_hubs_message(
    fake: fake_hub.FakeHub, tiny_repo: fake_hub.Repo, refusal: Refusal, client: Hub
) -> None:
    fake.names.denied["acme/tiny"] = (403, "Please enable access to gated repositories")
    finding = refusal(hub=replace(client, token=fake_hub.TOKEN))
    assert finding.have == "the Hub says: Please enable access to gated repositories"
    assert "/settings/tokens" in finding.fix


def test_a_model_that_the_hub_has_disabled_is_reported(
    fake: fake_hub.FakeHub, tiny_repo: fake_hub.Repo, refusal: Refusal
) -> None:
    fake.names.denied["acme/tiny"] = (403, "Access to this resource is disabled.")
    assert refusal().have == "disabled by the Hub"


def test_a_local_copy_is_served_even_if_the_hub_would_refuse_it_now(
    tiny_repo: fake_hub.Repo, look_up: LookUp, refusal: Refusal, client: Hub
) -> None:
    folder = fetch(look_up(), client)
    tiny_repo.gated = True
    assert "consent" in refusal(refresh=True).have
    assert look_up().folder == folder


def test_a_gated_model_opens_with_the_token(tiny_repo: fake_hub.Repo, look_up: LookUp, client: Hub) -> None:
    tiny_repo.gated = True
    assert look_up(hub=replace(client, token=fake_hub.TOKEN)).commit == tiny_repo.commit


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
def test_names_similar_to_an_unknown_one_are_suggested(
    shelf: None, refusal: Refusal, name: str, first: str
) -> None:
    finding = refusal(name)
    assert finding.have == "no such model, or a private one"
    assert finding.fix.startswith(f'MODEL_NAME = "{first}"')
    assert finding.fix.endswith("a private one needs your token in HUGGINGFACE_ACCESS_TOKEN")


def test_at_most_three_names_are_suggested_and_only_similar_ones(shelf: None, refusal: Refusal) -> None:
    fix = refusal("acme/tiny-v").fix
    assert fix.count('"') == 6 and "large" not in fix


def test_a_hub_without_search_suggests_nothing(fake: fake_hub.FakeHub, shelf: None, refusal: Refusal) -> None:
    fake.names.searches = False
    assert refusal("acme/tinny").fix.startswith("check MODEL_NAME;")


def test_with_a_token_the_owners_token_is_suggested(shelf: None, refusal: Refusal, client: Hub) -> None:
    fix = refusal("acme/tinny", hub=replace(client, token=fake_hub.TOKEN)).fix
    assert fix.endswith("a private one needs the token of its owner in HUGGINGFACE_ACCESS_TOKEN")


@pytest.mark.parametrize("kind", ["dataset", "space"])
def test_a_dataset_or_space_is_named_as_such(fake: fake_hub.FakeHub, refusal: Refusal, kind: str) -> None:
    fake.names.others["acme/words"] = kind
    finding = refusal("acme/words")
    assert finding.have == f"a {kind} has this name, but no model"
    assert "MODEL_NAME = " in finding.fix


def test_branches_and_tags_are_listed_for_an_unknown_version(
    tiny_repo: fake_hub.Repo, refusal: Refusal
) -> None:
    tiny_repo.tags = ("v1.0", "v2.0", "fp16")
    finding = refusal("acme/tiny", "v2")
    assert (finding.need, finding.have) == ("acme/tiny at v2", "no such version")
    assert finding.fix == 'MODEL_REVISION = "v2.0"; the versions are v2.0, v1.0, main, fp16'


def test_only_some_of_many_tags_are_listed(tiny_repo: fake_hub.Repo, refusal: Refusal) -> None:
    tiny_repo.tags = tuple(f"step{number}" for number in range(20))
    assert refusal("acme/tiny", "step7000").fix.endswith(" and 9 more")


def test_a_tag_is_a_version(tiny_repo: fake_hub.Repo, look_up: LookUp) -> None:
    tiny_repo.tags = ("v1.0",)
    assert look_up("acme/tiny", "v1.0").commit == tiny_repo.commit


def test_a_renamed_model_is_found_and_fetched_by_its_old_name(
    fake: fake_hub.FakeHub, tiny_repo: fake_hub.Repo, look_up: LookUp, client: Hub
) -> None:
    tiny_repo.gated = True
    fake.names.moved["old/name"] = "acme/tiny"
    known = replace(client, token=fake_hub.TOKEN)
    source = look_up("old/name", hub=known)
    assert (source.commit, source.current_name) == (tiny_repo.commit, "acme/tiny")
    assert (fetch(source, known) / "model.safetensors").stat().st_size == source.weight_bytes


@pytest.mark.parametrize("name", ["acme//tiny", "tiny:8b", "C:\\models\\tiny"])
def test_an_invalid_name_is_refused(refusal: Refusal, name: str) -> None:
    assert refusal(name).fix == 'MODEL_NAME = "owner/model", or the path of a folder'


@pytest.mark.parametrize(
    "name",
    ["https://huggingface.co/acme/tiny/tree/main", "hf.co/acme/tiny", "acme/tiny:Q4_K_M", " acme/tiny "],
)
def test_the_name_in_a_url_or_before_a_tag_is_suggested(refusal: Refusal, name: str) -> None:
    fix = refusal(name).fix
    assert fix.startswith('MODEL_NAME = "acme/tiny"') and ("GGUF_FILE" in fix) == ("Q4" in name)


def test_the_variable_that_forbids_requests_is_named(client: Hub) -> None:
    with (
        pytest.raises(HubUnavailable, match=r"^HF_HUB_OFFLINE is set$") as caught,
        explain_hub_errors(client, "acme/tiny", "main"),
    ):
        raise OfflineModeIsEnabled
    assert "unset the environment variable" in caught.value.fix


@pytest.mark.parametrize(
    ("error", "have"),
    [
        (TimeoutError("timed out"), "does not answer (timed out)"),
        (ssl.SSLError(1, "[SSL] PEM lib"), "no TLS connection is possible ([SSL] PEM lib)"),
    ],
    ids=["timeout", "certificates"],
)
def test_a_failed_connection_is_not_blamed_on_the_disk(client: Hub, error: OSError, have: str) -> None:
    with (
        pytest.raises(HubUnavailable, match=re.escape(have)) as caught,
        explain_hub_errors(client, "acme/tiny", "main"),
    ):
        raise error
    assert "CACHE_DIR" not in caught.value.fix


@pytest.mark.parametrize("content", ["", "no certificate"])
def test_certificates_that_cannot_be_read_are_named(
    refusal: Refusal, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, content: str
) -> None:
    if content:
        (tmp_path / "certificates.pem").write_text(content)
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "certificates.pem"))
    close_session()
    finding = refusal()
    assert finding.have.startswith("no TLS connection is possible (") and "SSL_CERT_FILE" in finding.fix


def test_a_hub_that_is_down_is_named(refusal: Refusal, client: Hub) -> None:
    finding = refusal(hub=replace(client, endpoint="http://127.0.0.1:9"))
    assert "http://127.0.0.1:9 does not answer" in finding.have
    assert "HF_ENDPOINT" in finding.fix


@pytest.mark.parametrize(("status", "fix"), [(500, "try again later"), (503, "later"), (429, "wait")])
def test_a_hub_that_cannot_answer_now_does_not_blame_the_model(
    fake: fake_hub.FakeHub, tiny_repo: fake_hub.Repo, refusal: Refusal, status: int, fix: str
) -> None:
    fake.broken = status
    finding = refusal()
    assert f"answers {status}" in finding.have and fix in finding.fix


def test_a_login_page_in_front_of_the_network_is_shown(
    tiny_repo: fake_hub.Repo, fake: fake_hub.FakeHub, refusal: Refusal
) -> None:
    fake.names.denied["acme/tiny"] = (200, b"<html>Log in to this network")
    finding = refusal()
    assert "<html>Log in" in finding.have and "HTTPS_PROXY" in finding.fix


DEEP = b"[" * 5000 + b"]" * 5000


def test_a_response_that_no_hub_sends_is_reported(
    tiny_repo: fake_hub.Repo, fake: fake_hub.FakeHub, refusal: Refusal
) -> None:
    fake.names.denied["acme/tiny"] = (200, DEEP)
    assert "sent an invalid response: it is nested deeper" in refusal().have


def test_an_unreadable_optional_response_is_ignored(fake: fake_hub.FakeHub, client: Hub) -> None:
    fake.names.denied["acme/tiny"] = (200, DEEP)
    assert client.get_json("/api/models/acme/tiny") == (200, None)


def test_a_hub_that_fails_halfway_is_named(tiny_repo: fake_hub.Repo, refusal: Refusal) -> None:
    tiny_repo.faults["tokenizer_config.json"] = ErrorStatus(502)
    assert "answers 502" in refusal().have


@pytest.mark.parametrize("status", [500, 503, 429])
def test_a_fetched_model_is_served_while_the_hub_cannot_answer(
    fake: fake_hub.FakeHub, tiny_repo: fake_hub.Repo, look_up: LookUp, client: Hub, status: int
) -> None:
    folder = fetch(look_up(), client)
    fake.broken = status
    assert look_up().folder == folder


def test_a_folder_needs_no_hub(tmp_path: Path, fake: fake_hub.FakeHub, look_up: LookUp) -> None:
    look_up(str(tiny.llama(tmp_path / "own")))
    assert fake.requests == []


def test_a_status_without_a_message_is_reported_without_its_url(
    fake: fake_hub.FakeHub, refusal: Refusal
) -> None:
    fake.names.denied["acme/tiny"] = (418, b"")
    assert refusal("acme/tiny").have == "the Hub says: 418 I'm a Teapot"
