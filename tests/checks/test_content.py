"""What is in a model: its licence, its own code, and a type that may be too new for what is installed."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import transformers

from checks import every
from checks.finding import Finding
from checks.machine import Machine
from checks.plan import Plan
from checks.source.find import in_folder
from checks.source.repository import Repository
from tests import hub, tiny

Planner = Callable[..., Plan]
LookUp = Callable[..., Repository]
OWN = {"model_type": "own", "auto_map": {"AutoModelForCausalLM": "modeling_own.Model"}}


def found(name: str, plan: Plan, machine: Machine) -> Finding | None:
    return next((finding for finding in every.run(plan, machine) if finding.name == name), None)


def folder(path: Path, files: tuple[str, ...] = (), **config: Any) -> Repository:
    made = tiny.llama(path)
    tiny.edit(made / "config.json", **config)
    for name in files:
        (made / name).write_text("")
    return in_folder("own", made, code=True)


@pytest.mark.parametrize(
    ("card", "told"),
    [
        ({"license": "apache-2.0"}, "apache-2.0"),
        (
            {"license": "other", "license_name": "acme-1", "license_link": "https://acme/1"},
            "acme-1 (https://acme/1)",
        ),
        ({"license": ["mit", "cc-by-4.0"]}, "mit, cc-by-4.0"),
        ({}, "none named"),
    ],
)
def test_the_licence_is_what_the_card_says(
    tiny_repo: hub.Repo, look_up: LookUp, planned: Planner, machine: Machine, card: dict[str, Any], told: str
) -> None:
    tiny_repo.card = card
    finding = found("licence", planned(look_up()), machine)
    assert finding and finding.ok and finding.have == told


@pytest.mark.parametrize(
    ("file", "text", "told"),
    [
        ("README.md", "---\nlicense: gemma\n---\n# Own\n", "gemma"),
        ("README.md", "---\nlicense: [a, b\n---\n", "none named"),
        ("README.md", "# Own, with nothing at its top\n", "none named"),
        ("LICENSE.txt", "Do as you like.", "LICENSE.txt"),
    ],
)
def test_a_folder_tells_its_licence_too(
    tmp_path: Path, planned: Planner, machine: Machine, file: str, text: str, told: str
) -> None:
    made = tiny.llama(tmp_path / "own")
    (made / file).write_text(text)
    finding = found("licence", planned(in_folder("own", made, code=False)), machine)
    assert finding and finding.have == told


def test_a_folders_own_code_needs_leave(tmp_path: Path, planned: Planner, machine: Machine) -> None:
    source = folder(tmp_path / "own", ("modeling_own.py",), **OWN)
    finding = found("code", planned(source), machine)
    assert finding and not finding.ok
    assert finding.mend == "TRUST_REMOTE_CODE = True, once you have read modeling_own.py"
    allowed = found("code", planned(source, code=True), machine)
    assert allowed and allowed.ok


def test_code_from_the_hub_needs_a_commit_besides(
    tiny_repo: hub.Repo, look_up: LookUp, planned: Planner, machine: Machine
) -> None:
    tiny.edit(tiny_repo.folder / "config.json", **OWN)
    (tiny_repo.folder / "modeling_own.py").write_text("")
    both = found("code", planned(look_up(code=True)), machine)
    assert both and both.mend.startswith(
        f'TRUST_REMOTE_CODE = True and MODEL_REVISION = "{tiny_repo.commit}", once'
    )
    branch = found("code", planned(look_up(code=True), code=True), machine)
    assert branch and not branch.ok and branch.mend.startswith(f'MODEL_REVISION = "{tiny_repo.commit}"')
    pinned = look_up("acme/tiny", tiny_repo.commit, code=True)
    commit = found("code", planned(pinned, code=True), machine)
    assert commit and commit.ok


def test_code_beside_a_model_that_is_known_is_pinned_too_where_it_may_run(
    tiny_repo: hub.Repo, look_up: LookUp, planned: Planner, machine: Machine
) -> None:
    (tiny_repo.folder / "tokenization.py").write_text("")
    assert found("code", planned(look_up()), machine) is None
    finding = found("code", planned(look_up(code=True), code=True), machine)
    assert finding and not finding.ok


def test_code_of_another_repository_is_refused(tmp_path: Path, planned: Planner, machine: Machine) -> None:
    source = folder(tmp_path / "own", **(OWN | {"auto_map": {"AutoModelForCausalLM": "acme/code--m.Model"}}))
    finding = found("code", planned(source, code=True), machine)
    assert finding and not finding.ok and "another model, acme/code" in finding.mend


def test_a_type_of_a_newer_transformers_names_the_version(
    tmp_path: Path, planned: Planner, machine: Machine
) -> None:
    source = folder(tmp_path / "new", model_type="llama99", transformers_version="99.1.0")
    finding = found("architecture", planned(source), machine)
    assert finding and finding.mend == (
        f"transformers {transformers.__version__} is installed, and 99.1.0 wrote its config.json: "
        'pip3 install "transformers>=99.1.0"'
    )


@pytest.mark.parametrize("version", ["4.0.0", "not a version", None])
def test_a_type_that_none_knows_is_no_matter_of_versions(
    tmp_path: Path, planned: Planner, machine: Machine, version: str | None
) -> None:
    source = folder(tmp_path / "odd", model_type="llama99", transformers_version=version)
    finding = found("architecture", planned(source), machine)
    assert finding and "'llama99', which transformers" in finding.mend


def test_a_plan_that_is_known_from_the_cache_says_that_its_licence_is_not(
    planned: Planner, machine: Machine
) -> None:
    made = planned()
    cached = replace(made.repository, commit="0" * 40, licence="")
    finding = found("licence", replace(made, repository=cached), machine)
    assert finding and "not kept" in finding.have
