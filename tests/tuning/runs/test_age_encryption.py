"""Checkpoints encrypted with age: the named keys read them, others are refused in words."""

from pathlib import Path

import pyrage
import pytest

from inference.errors import BadRequest
from tests.tuning.runs.conftest import RunClient
from tuning.runs.age_encryption import encrypt_files, parse_recipients
from tuning.runs.types import SaveWeights

SSH_KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIJ8YWQXoHHvfMWdMKCZIMXCCc8nx1a3HQTDDri7Qnol+"


def test_each_file_is_readable_by_each_of_the_keys_alone(tmp_path: Path) -> None:
    identities = [pyrage.x25519.Identity.generate() for _ in range(2)]
    contents = {"a.json": b"{}", "b.bin": bytes(100_000)}
    for name, content in contents.items():
        (tmp_path / name).write_bytes(content)
    keys = [*(str(each.to_public()) for each in identities), SSH_KEY]
    encrypt_files(tmp_path, parse_recipients(keys))
    assert sorted(file.name for file in tmp_path.iterdir()) == ["a.json.age", "b.bin.age"]
    for name, content in contents.items():
        encrypted = (tmp_path / f"{name}.age").read_bytes()
        for identity in identities:
            assert pyrage.decrypt(encrypted, [identity]) == content
        with pytest.raises(pyrage.DecryptError):
            pyrage.decrypt(encrypted, [pyrage.x25519.Identity.generate()])


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        (["age1x"], r"age_encryption_recipients\[0\] must be a public key"),
        ([SSH_KEY, "ssh-ed25519 AAAA"], r"age_encryption_recipients\[1\] must be a public key"),
        ([""], "must be a public key"),
        ([SSH_KEY] * 11, "must have at most 10 items, got 11"),
    ],
)
def test_other_keys_are_refused(keys: list[str], message: str) -> None:
    with pytest.raises(BadRequest, match=message):
        parse_recipients(keys)


def test_a_run_saves_an_encrypted_checkpoint_or_none(client: RunClient) -> None:
    run_id, identity = client.create_run(70), pyrage.x25519.Identity.generate()
    own = SaveWeights(name="e", kind="external_weights", encrypt_to=("age1x",))
    assert "must be a public key" in client.fail(run_id, own).message
    assert client.runs.checkpoints(run_id) == []
    own = SaveWeights(name="e", kind="external_weights", encrypt_to=(str(identity.to_public()),))
    folder = client.runs.checkpoint_folder(client.call(run_id, own).path)
    names = sorted(file.name for file in folder.iterdir())
    assert names == ["adapter_config.json.age", "adapter_model.safetensors.age"]
    assert b'"peft_type"' in pyrage.decrypt((folder / names[0]).read_bytes(), [identity])
