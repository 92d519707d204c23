"""The process of a model: why it did not start is what it said last."""

import asyncio
from pathlib import Path

import pytest

from inference.on_demand import model_process
from inference.on_demand.managed_model import LoadFailed
from inference.on_demand.model_process import ModelProcess
from inference.process.memory_shortage import describe
from settings.model_list import RemoteModel, parse_entry
from tests.parsed_settings import parsed_settings


def test_a_start_without_memory_is_said_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = tmp_path / "serve_model.py"
    program.write_text(f"print({'hearth: ' + describe(MemoryError())!r})\nraise SystemExit(1)\n")
    monkeypatch.setattr(model_process, "PROGRAM", program)
    model = parse_entry(1, {"base_model": "m", "inference_server": "vllm:localhost:1"})
    assert isinstance(model, RemoteModel)
    process = ModelProcess(model, parsed_settings(HOST=str(tmp_path / "model.sock")))
    with pytest.raises(LoadFailed, match=r"^m: not enough memory \(MemoryError\): raise ulimit -v"):
        asyncio.run(process.start())
