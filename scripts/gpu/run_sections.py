"""Runs sections one after the other, in the process that supervise.py has started for them.

A section that fails ends alone. The process ends with a section that hangs, with the place where it does, and
after one that has lost the GPU.
"""

import argparse
import faulthandler
import os
import re
import signal
import sys
import threading
import time
import traceback
from collections.abc import Iterator, Sequence
from contextlib import closing
from importlib.metadata import PackageNotFoundError, distribution
from multiprocessing import parent_process
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, Protocol

import torch
import transformers

from inference.model.load.device_dtype import resolve_device
from inference.model.lost_device import is_device_lost
from scripts.bench import machine
from scripts.bench.engine_under_test import EngineFailed
from scripts.bench.models import num_parameters
from scripts.bench.options import BenchOptions, dtype_for
from scripts.gpu.engine import EnginePool, EngineSize
from scripts.gpu.figure import Figure, WrongResult
from scripts.gpu.log import write_log
from scripts.gpu.messages import Began, Measured, Message, Numbers, SectionEnd
from scripts.gpu.section import SectionOptions, SectionRun
from scripts.gpu.sections import SECTIONS

BY_SIZE = ("8b", "0.5b", "77m")
WEIGHT_COPIES = 3  # that must fit into memory: two engines, and as much again for caches and activations
ROOT = Path(__file__).resolve().parents[2]
PARENT_POLL_S = 1.0
GRACE_S = 60  # after the end of a section's time, before it is taken to hang


class FigureSink(Protocol):
    """Where figures go. numbers: as in FigureReport."""

    numbers: dict[tuple[str, str], float]

    def add(self, section: str, figure: Figure) -> None: ...

    def write(self, line: str) -> None: ...


class SentFigures:
    """A FigureSink that sends them to the supervisor."""

    def __init__(self, connection: Connection, numbers: Numbers) -> None:
        self.numbers = dict(numbers)
        self._connection = connection

    def add(self, section: str, figure: Figure) -> None:
        if not isinstance(figure.value, str):
            self.numbers[section, figure.name] = figure.value
        self.send(Measured(section, figure))

    def write(self, line: str) -> None:
        self.send(line)

    def send(self, message: Message) -> None:
        self._connection.send(message)


def run_sections(
    connection: Connection,
    args: argparse.Namespace,
    names: Sequence[str],
    numbers: Numbers,
    end_s: float,
) -> None:
    """The program of the process. end_s: time.monotonic() at the end of the whole run."""
    os.setsid()  # so that the supervisor can end what it leaves behind
    supervisor = parent_process()
    assert supervisor is not None
    threading.Thread(target=end_with, args=(supervisor.pid,), daemon=True).start()
    transformers.logging.set_verbosity_error()
    write_log(args.output / "log.txt")
    figures = SentFigures(connection, numbers)
    bench = make_options(args)
    missing = f"packages that are missing: {', '.join(missing_packages()) or 'none'}"
    figures.write("\n".join([*machine.describe(), missing, f"{bench.model}, {bench.dtype}"]))
    options = SectionOptions(bench, args.rounds, args.sample, args.output, args.vllm_path)
    engines = EnginePool(bench, EngineSize(args.max_sequences, args.max_batch_tokens), freezes_gc=True)
    for name in names:
        figures.send(Began(name, bench.model))
        limit_s = min(60 * SECTIONS[name].minutes, max(0.0, end_s - time.monotonic()))
        faulthandler.dump_traceback_later(limit_s + GRACE_S, exit=True)
        passed = run_section(name, options, engines, figures, end_s)
        faulthandler.cancel_dump_traceback_later()
        figures.send(SectionEnd(name, passed))
        if is_device_lost():
            figures.write("the GPU is lost to this process")
            return


def end_with(parent: int) -> None:
    """End this process and all that it has started soon after its parent, which may be killed."""
    while os.getppid() == parent:
        time.sleep(PARENT_POLL_S)
    os.killpg(0, signal.SIGKILL)


def missing_packages() -> Iterator[str]:
    """The packages of requirements.txt that this Python lacks: the server may need them."""
    for line in (ROOT / "requirements.txt").read_text("utf-8").splitlines():
        if name := re.match(r"[\w-]+", line):
            try:
                distribution(name[0])
            except PackageNotFoundError:
                yield name[0]


def run_section(
    name: str, options: SectionOptions, engines: EnginePool, figures: FigureSink, end_s: float
) -> bool:
    """Run a section if half of its budget is left; returns whether it did not fail."""
    section, start_s = SECTIONS[name], time.monotonic()
    if end_s - start_s < 60 * section.minutes / 2:
        figures.add(name, Figure("not run", f"{(end_s - start_s) / 60:.1f} of {section.minutes:g} min left"))
        return True
    figures.write(f"\n{name}")
    run = SectionRun(options, engines, min(end_s, start_s + 60 * section.minutes), figures.numbers)
    try:
        measured: Any = section.measure(run)  # a generator
        with closing(measured):
            for figure in measured:
                figures.add(name, figure)
                if not run.remaining_s:
                    figures.add(name, Figure("time is over", f"{(time.monotonic() - start_s) / 60:.1f} min"))
                    break
        return True
    except (Exception, EngineFailed) as error:  # the other sections still run
        if not isinstance(error, WrongResult):
            traceback.print_exc(file=sys.stdout)
        figures.add(name, Figure("failed", type(error).__name__, remark=str(error).partition("\n")[0][:200]))
        error.__traceback__ = None  # its frames hold the engine
        engines.free()
        return False
    finally:
        figures.write(f"{name} took {time.monotonic() - start_s:.1f} s")


def make_options(args: argparse.Namespace) -> BenchOptions:
    device = resolve_device(args.device)
    model = args.model or largest_shape(device)
    dtype = dtype_for(model, args.dtype, device)
    return BenchOptions(model=model, dtype=dtype, device=device, threads=args.threads, runner=args.runner)


def largest_shape(device: str) -> str:
    """The largest shape of which WEIGHT_COPIES copies fit into free VRAM, at two bytes per weight."""
    if device != "cuda":
        return "tiny"
    free = torch.cuda.mem_get_info()[0]
    return next((shape for shape in BY_SIZE if 2 * WEIGHT_COPIES * num_parameters(shape) < free), "tiny")
