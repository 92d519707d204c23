"""The targets of the figures, and whether a figure meets them."""

from typing import NamedTuple

from scripts.gpu.figure import Figure

NO_VERDICT = "—"


class FigureTarget(NamedTuple):
    """A limit of a figure.

    figure    its name; in the section "memory" the beginning of its name
    model     beginning of the shape's name; "" for every shape
    is_least  whether the figure must be at least `limit`; otherwise its absolute value at most
    """

    section: str
    figure: str
    model: str
    is_least: bool
    limit: float

    @property
    def text(self) -> str:
        return f"{'≥' if self.is_least else '≤'} {self.limit:,g}"

    def is_met(self, value: float) -> bool:
        return value >= self.limit if self.is_least else abs(value) <= self.limit


TARGETS = (
    FigureTarget("start", "until ready", "8b", False, 20),  # seconds
    FigureTarget("restart", "again, until its first token", "8b", False, 20),  # seconds
    FigureTarget("roofline", "share of roofline", "8b", True, 80),  # %
    FigureTarget("roofline", "share of roofline", "1b", True, 60),
    FigureTarget("prefill", "2048 tokens, MFU", "8b", True, 50),  # %
    FigureTarget("prefill", "8192 tokens, MFU", "8b", True, 60),
    FigureTarget("rows256", "256 requests", "8b", True, 12_500),  # tokens/s
    FigureTarget("vllm", "256 requests, ratio", "", True, 1),
    FigureTarget("transformers", "64 mixed, ratio", "", True, 2),
    FigureTarget("adapters", "error to merged weights", "", False, 1e-3),  # standard deviations of a logit
    FigureTarget("placement", "tiny, error to the whole model", "", False, 1e-3),
    FigureTarget("memory", "llama", "", False, 3),  # % error
    FigureTarget("memory", "qwen3", "", False, 3),
    FigureTarget("memory", "gpt2", "", False, 3),
    FigureTarget("memory", "mamba", "", False, 3),
    FigureTarget("tuning", "QLoRA, peak VRAM", "8b", False, 9),  # GB
    FigureTarget("tuning", "QLoRA, ratio", "8b", True, 1.4),
    FigureTarget("quantized", "int8, error in float32", "", False, 1e-2),  # standard deviations of a logit
    FigureTarget("quantized", "int4, error in float32", "", False, 1e-2),
    FigureTarget("products", "int8, error", "", False, 0.05),  # standard deviations of an output
    FigureTarget("products", "int4, error", "", False, 0.05),
    FigureTarget("products", "int8, served, error", "", False, 0.05),
    FigureTarget("products", "int4, served, error", "", False, 0.05),
    FigureTarget("correct", "GPU tests, failed", "", False, 0),
    FigureTarget("correct", "GPU tests, error", "", False, 0),
    FigureTarget("correct", "tiny models, failed", "", False, 0),
    FigureTarget("correct", "tiny models, error", "", False, 0),
)


def find_target(section: str, name: str, model: str) -> FigureTarget | None:
    """The target of the figure with this name."""
    for target in TARGETS:
        is_figure = name.startswith(target.figure) if section == "memory" else name == target.figure
        if target.section == section and is_figure and model.startswith(target.model):
            return target
    return None


def verdict(target: FigureTarget | None, figure: Figure) -> str:
    if target is None or isinstance(figure.value, str):
        return NO_VERDICT
    return "met" if target.is_met(figure.value) else "missed"
