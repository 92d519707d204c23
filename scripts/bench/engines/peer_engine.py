"""Describes another engine: where it is installed, its weight formats, how it starts."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from scripts.bench.engine_under_test import EngineSpec, EngineUnderTest
from scripts.bench.models import model_folder
from scripts.bench.options import BenchOptions


@dataclass(frozen=True, slots=True)
class PeerEngine:
    """Another engine.

    weight_formats  by quantization: the engine's own name of the format, for those that it supports
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

    def make_spec(self, options: BenchOptions) -> EngineSpec:
        weight_format = self.weight_formats[options.quantize]
        prepare = partial(self.prepare_model, options, weight_format)
        return EngineSpec(self.name, lambda: self.start(options, weight_format, prepare()), prepare)


def use_same_model(options: BenchOptions, weight_format: str) -> Path:
    """The folder that our server loads."""
    return model_folder(options.model)
