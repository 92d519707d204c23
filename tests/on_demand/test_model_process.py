"""The process of a model: why it did not start is what it said last."""

import asyncio
import json
from pathlib import Path

import pytest

from inference.on_demand import model_process
from inference.on_demand.managed_model import LoadFailed
from inference.on_demand.model_process import ModelProcess
from inference.process.memory.memory_shortage import describe
from settings.model_list import parse_entry
from settings.remote_model import RemoteModel
from tests.settings.parsed_settings import parsed_settings


def make_process(folder: Path) -> ModelProcess:
    model = parse_entry(1, {"base_model": "m", "inference_server": "vllm:localhost:1"})
    assert isinstance(model, RemoteModel)
    return ModelProcess(model, parsed_settings(HOST=str(folder / "model.sock")))


def test_a_start_without_memory_is_said_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = tmp_path / "serve_model.py"
    program.write_text(f"print({'hearth: ' + describe(MemoryError())!r})\nraise SystemExit(1)\n")
    monkeypatch.setattr(model_process, "PROGRAM", program)
    process = make_process(tmp_path)
    with pytest.raises(LoadFailed, match=r"^m: not enough memory \(MemoryError\): raise ulimit -v"):
        asyncio.run(process.start())


def test_a_refusal_of_the_checks_shows_no_folder_of_the_server(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    finding = {
        "name": "weights",
        "ok": False,
        "need": "model-00002.safetensors",
        "have": "1 of 2 files",
        "fix": "copy the missing files into /srv/models/m",
    }
    report = json.dumps({"findings": [finding]})
    program = tmp_path / "serve_model.py"
    line = "import sys; sys.stdout.buffer.write(b'a line of Windows\\r\\n'); sys.stdout.flush()"
    program.write_text(f"{line}\nprint({report!r})\nraise SystemExit(1)\n")
    monkeypatch.setattr(model_process, "PROGRAM", program)
    with pytest.raises(LoadFailed) as raised:
        asyncio.run(make_process(tmp_path).start())
    sentence = "weights needs model-00002.safetensors, and there is 1 of 2 files: copy the missing files into"
    assert str(raised.value) == f"m: {sentence} m"
    log = capfd.readouterr().err
    assert f"[m] {sentence} /srv/models/m" in log, "the log names the folder"
    assert "[m] a line of Windows\n[m]" in log


def start_program(text: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """Why a process that runs `text` is no model, where one may stall for two seconds. It has ended then."""
    program = folder / "serve_model.py"
    program.write_text(text)
    monkeypatch.setattr(model_process, "PROGRAM", program)
    monkeypatch.setattr(model_process, "STALL_S", 2.0)
    process = make_process(folder)

    async def start() -> None:
        try:
            await process.start()
        finally:
            await process.stop()

    with pytest.raises(LoadFailed) as raised:
        asyncio.run(start())
    assert not process.is_running
    return str(raised.value)


def test_a_load_that_gets_no_further_ends_with_its_progress(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    download = {"message": "fetching m 3 %", "total_bytes": 9, "eta_seconds": 40}
    text = f"import time\nprint({json.dumps(download)!r}, flush=True)\ntime.sleep(60)\n"
    message = start_program(text, tmp_path, monkeypatch)
    assert message.startswith("m: the load made no progress for 2 s (fetching m 3 %): check the disk")


def test_a_load_that_reads_may_take_longer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lines = (
        "import time",
        "for _ in range(30):",
        "    open('/dev/zero', 'rb').read(1 << 20)",
        "    time.sleep(0.1)",
        "raise SystemExit(7)",
    )
    assert "exit code 7" in start_program("\n".join(lines), tmp_path, monkeypatch)


def test_a_process_that_does_not_answer_neither_sleeps_nor_counts_as_asleep(tmp_path: Path) -> None:
    process = make_process(tmp_path)
    with pytest.raises(LoadFailed, match="the server behind m cannot be reached"):
        asyncio.run(process.sleep())
    assert not process.is_asleep and not process.reclaimable_bytes


def test_a_process_that_sleeps_for_too_long_has_failed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def never(model: RemoteModel) -> None:
        await asyncio.sleep(600)

    monkeypatch.setattr(model_process, "SLEEP_TIMEOUT_S", 0.05)
    monkeypatch.setattr(model_process.link, "put_to_sleep", never)
    with pytest.raises(LoadFailed, match="m did not sleep within 0 s"):
        asyncio.run(make_process(tmp_path).sleep())
