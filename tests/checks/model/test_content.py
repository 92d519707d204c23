"""What a model contains: its licence, its own code, a type too new for the installed packages."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import transformers

from checks import preflight
from checks.machine import Machine
from checks.memory.plan import Plan
from hub.repository import Repository
from hub.resolve import from_folder
from hub.weight_files import AllowedFiles
from inference.finding import Finding
from tests.fakes import fake_hub
from tests.tiny_models import tiny

Planner = Callable[..., Plan]
LookUp = Callable[..., Repository]
WITH_CODE = AllowedFiles(trust_remote_code=True)
OWN = {"model_type": "own", "auto_map": {"AutoModelForCausalLM": "modeling_own.Model"}}


def finding_named(name: str, plan: Plan, machine: Machine) -> Finding | None:
    return next((finding for finding in preflight.run_checks(plan, machine) if finding.name == name), None)


def folder(path: Path, files: tuple[str, ...] = (), **config: Any) -> Repository:
    model_folder = tiny.llama(path)
    tiny.edit(model_folder / "config.json", **config)
    for name in files:
        (model_folder / name).write_text("")
    return from_folder("own", model_folder, WITH_CODE)


@pytest.mark.parametrize(
    ("card", "licence"),
    [
        ({"license": "apache-2.0"}, "apache-2.0"),
        (
            {"license": "other", "license_name": "acme-1", "license_link": "https://acme/1"},
            "acme-1 (https://acme/1)",
        ),
        ({"license": ["mit", "cc-by-4.0"]}, "mit, cc-by-4.0"),
        ({}, "not stated"),
    ],
)
def test_the_licence_comes_from_the_card(
    tiny_repo: fake_hub.Repo,
    look_up: LookUp,
    planned: Planner,
    machine: Machine,
    card: dict[str, Any],
    licence: str,
) -> None:
    tiny_repo.card = card
    finding = finding_named("licence", planned(look_up()), machine)
    assert finding and finding.ok and finding.have == licence


@pytest.mark.parametrize(
    ("file", "text", "licence"),
    [
        ("README.md", "---\nlicense: gemma\n---\n# Own\n", "gemma"),
        ("README.md", "---\nlicense: [a, b\n---\n", "not stated"),
        ("README.md", "# Own, with nothing at its top\n", "not stated"),
        ("LICENSE.txt", "Do as you like.", "LICENSE.txt"),
    ],
)
def test_a_folder_names_its_licence_too(
    tmp_path: Path, planned: Planner, machine: Machine, file: str, text: str, licence: str
) -> None:
    model_folder = tiny.llama(tmp_path / "own")
    (model_folder / file).write_text(text)
    finding = finding_named("licence", planned(from_folder("own", model_folder)), machine)
    assert finding and finding.have == licence


def test_a_folders_own_code_needs_permission(tmp_path: Path, planned: Planner, machine: Machine) -> None:
    source = folder(tmp_path / "own", ("modeling_own.py",), **OWN)
    finding = finding_named("code", planned(source), machine)
    assert finding and not finding.ok
    assert finding.fix == "TRUST_REMOTE_CODE = True, once you have read modeling_own.py"
    allowed = finding_named("code", planned(source, trust_remote_code=True), machine)
    assert allowed and allowed.ok


def test_code_from_the_hub_needs_a_commit_as_well(
    tiny_repo: fake_hub.Repo, look_up: LookUp, planned: Planner, machine: Machine
) -> None:
    tiny.edit(tiny_repo.folder / "config.json", **OWN)
    (tiny_repo.folder / "modeling_own.py").write_text("")
    both = finding_named("code", planned(look_up(allowed=WITH_CODE)), machine)
    assert both and both.fix.startswith(
        f'TRUST_REMOTE_CODE = True and MODEL_REVISION = "{tiny_repo.commit}", once'
    )
    branch = finding_named("code", planned(look_up(allowed=WITH_CODE), trust_remote_code=True), machine)
    assert branch and not branch.ok and branch.fix.startswith(f'MODEL_REVISION = "{tiny_repo.commit}"')
    pinned = look_up("acme/tiny", tiny_repo.commit, allowed=WITH_CODE)
    commit = finding_named("code", planned(pinned, trust_remote_code=True), machine)
    assert commit and commit.ok


def test_code_of_a_known_model_must_be_pinned_too_if_it_may_run(
    tiny_repo: fake_hub.Repo, look_up: LookUp, planned: Planner, machine: Machine
) -> None:
    (tiny_repo.folder / "tokenization.py").write_text("")
    assert finding_named("code", planned(look_up()), machine) is None
    finding = finding_named("code", planned(look_up(allowed=WITH_CODE), trust_remote_code=True), machine)
    assert finding and not finding.ok


def test_code_of_another_repository_is_refused(tmp_path: Path, planned: Planner, machine: Machine) -> None:
    source = folder(tmp_path / "own", **(OWN | {"auto_map": {"AutoModelForCausalLM": "acme/code--m.Model"}}))
    finding = finding_named("code", planned(source, trust_remote_code=True), machine)
    assert finding and not finding.ok and "another repository, acme/code" in finding.fix


def test_a_type_of_a_newer_transformers_names_the_version(
    tmp_path: Path, planned: Planner, machine: Machine
) -> None:
    source = folder(tmp_path / "new", model_type="llama99", transformers_version="99.1.0")
    finding = finding_named("architecture", planned(source), machine)
    assert finding and finding.fix == (
        f"transformers {transformers.__version__} is installed, but 99.1.0 wrote its config.json: "
        'pip3 install "transformers>=99.1.0"'
    )


@pytest.mark.parametrize("version", ["4.0.0", "not a version", None])
def test_an_unknown_type_does_not_suggest_a_version(
    tmp_path: Path, planned: Planner, machine: Machine, version: str | None
) -> None:
    source = folder(tmp_path / "odd", model_type="llama99", transformers_version=version)
    finding = finding_named("architecture", planned(source), machine)
    assert finding and "'llama99', which transformers" in finding.fix


def test_a_cached_plan_reports_that_its_licence_is_unknown(planned: Planner, machine: Machine) -> None:
    plan = planned()
    cached = replace(plan.repository, commit="0" * 40, licence="")
    finding = finding_named("licence", replace(plan, repository=cached), machine)
    assert finding and "not stored" in finding.have
