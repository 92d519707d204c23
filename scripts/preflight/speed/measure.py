"""Estimates a model's speed as --check does, then measures one answer as serving does, and starts."""

import tempfile
from dataclasses import dataclass
from pathlib import Path
from random import Random

from checks.preflight import preflight, with_speed
from checks.speed.estimate import PROMPT_TOKENS, SpeedEstimate
from hub.resolve import resolve_in_background
from inference.engine.engine import Engine
from scripts.bench.hearth import compute
from scripts.bench.load import Load, equal_length_load, quantile_of
from scripts.preflight.speed.cases import SpeedCase
from scripts.preflight.speed.start import ROOT, NotMeasured, measure_start
from settings.device_defaults import fill_defaults
from settings.sources import Source, read_sources, resolve
from startup.engine import load
from startup.one_model import without_ports

ANSWER_PROMPT, ANSWER_TOKENS = 192, 128  # tokens: their middle is where the estimate has its decoded token
ROUNDS = 3
KV_MEMORY_GB = 0.2


@dataclass(frozen=True, slots=True)
class SpeedResult:
    """An estimate, and the same quantities measured."""

    estimate: SpeedEstimate
    tokens_per_s: float
    first_token_s: float
    start_s: float

    @property
    def ratios(self) -> tuple[float, float, float]:
        """Estimated ÷ measured: tokens per second, seconds until the first token, and those of a start."""
        assert self.estimate.startup_s is not None
        return (
            self.estimate.tokens_per_s / self.tokens_per_s,
            self.estimate.first_token_s / self.first_token_s,
            self.estimate.startup_s / self.start_s,
        )


def measure_case(case: SpeedCase, model: Path) -> SpeedResult:
    """Raises NotMeasured, and what loading raises."""
    values = {
        "MODEL_NAME": str(model),
        "PREFIX_CACHING": False,
        "KV_MEMORY_GB": KV_MEMORY_GB,
        **case.settings,
    }
    settings = without_ports(resolve((*read_sources(ROOT, {}), Source("flags", values))))
    report = with_speed(preflight(settings, resolve_in_background(settings, ROOT)))
    if report.plan is None or not isinstance(report.speed, SpeedEstimate) or report.speed.startup_s is None:
        reasons = [f"{finding.name}: {finding.have}" for finding in report.findings if not finding.ok]
        raise NotMeasured("; ".join(reasons) or str(report.speed))
    loaded = load(fill_defaults(settings, report.plan.device), report.plan, report.machine)
    loaded.engine.start(loaded.engine_thread)
    try:
        rates = measure_engine(loaded.engine, loaded.loaded_model.vocab)
    finally:
        loaded.engine.stop()
        loaded.executor.close()
    with tempfile.TemporaryDirectory() as cache:
        return SpeedResult(report.speed, *rates, measure_start(values, Path(cache)))


def measure_engine(engine: Engine, vocab: int) -> tuple[float, float]:
    """Tokens per second of one answer, and seconds until the first token of a prompt: medians of ROUNDS."""
    random, rates, first_s = Random(0), [], []
    for _ in range(ROUNDS + 1):  # the first one is the warm-up
        times = token_times(engine, equal_length_load(random, vocab, 1, ANSWER_PROMPT, ANSWER_TOKENS))
        rates.append((len(times) - 1) / (times[-1] - times[0]))
        first_s.append(token_times(engine, equal_length_load(random, vocab, 1, PROMPT_TOKENS, 1))[0])
    return quantile_of(rates[1:], 0.5), quantile_of(first_s[1:], 0.5)


def token_times(engine: Engine, load: Load) -> list[float]:
    """When the tokens of the load's only request arrived, in seconds."""
    (sink,) = compute(engine, load)
    return sink.token_times
