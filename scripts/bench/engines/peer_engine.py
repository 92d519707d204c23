"""Describes another engine: where it is installed, its weight formats, how it starts."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from scripts.bench.engine_under_test import EngineSpec, EngineUnderTest
from scripts.bench.models import model_folder
from scripts.bench.options import BenchOptions

BF16, INT8, INT4 = PRECISIONS = "bf16", "int8", "int4"


@dataclass(frozen=True, slots=True)
class PeerEngine:
    """Another engine.

    weight_formats  by precision: the engine's own name of the format, for the PRECISIONS that it supports
    required_file   the engine is installed if this path exists below the engines folder; "": always installed
    prepare_model   (options, weight format) -> path of the model to load, which is converted if necessary
    start           (options, weight format, model path) -> the running engine
    """

    name: str
    weight_formats: Mapping[str, str]
    required_file: str
    prepare_model: Callable[[BenchOptions, str], Path]
    start: Callable[[BenchOptions, str, Path], EngineUnderTest]

    def is_installed(self, options: BenchOptions) -> bool:
        return not self.required_file or Path(options.engines_folder, self.required_file).exists()

    def make_spec(self, options: BenchOptions, precision: str) -> EngineSpec:
        prepare = partial(self.prepare_model, options, self.weight_formats[precision])
        return EngineSpec(
            self.name, lambda: self.start(options, self.weight_formats[precision], prepare()), prepare
        )


def use_same_model(options: BenchOptions, weight_format: str) -> Path:
    """The folder that our server loads."""
    return model_folder(options.model)
