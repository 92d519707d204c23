"""The text of a dry run: which tokens of the first rows are trained, the counts, and the memory plan."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from inference.finding import format_size
from tuning.terminal.progress_bar import format_duration

TRAINED_COLOUR, PLAIN = "\x1b[32m", "\x1b[0m"
MARKS = ("⟦", "⟧")  # around trained text, where there are no colours


def dry_run_report(report: Mapping[str, Any], use_colour: bool) -> str:
    """The JSON of a job with dry_run, as text for the terminal."""
    sections = [row_text(row, use_colour) for row in report["shown_rows"]]
    sections.append(table(list(counts(report))))
    if report["memory_plan"]:
        sections.append("Memory of the training process:\n" + table(list(memory(report["memory_plan"]))))
    if finding := report.get("memory"):
        sections += [] if finding["ok"] else [f"It does not fit, {finding['have']}: {finding['fix']}\n"]
    sections += [f"- {message}" for message in report["messages"]]
    return "\n".join(sections)


def row_text(row: Mapping[str, Any], use_colour: bool) -> str:
    """A row as the model reads it, with its trained text marked."""
    before, after = (TRAINED_COLOUR, PLAIN) if use_colour else MARKS
    label = f" ({row['label']})" if row["label"] else ""
    text = "".join(
        f"{before}{segment['text']}{after}" if segment["is_trained"] else segment["text"]
        for segment in row["segments"]
    )
    counted = f"{row['num_trained_tokens']:,} of {row['num_tokens']:,} tokens are trained"
    return f"Line {row['line']}{label}: {counted}\n{indent(text)}\n"


def indent(text: str) -> str:
    return "\n".join(f"  {line}" for line in text.rstrip("\n").split("\n"))


def counts(report: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    yield "rows", f"{report['num_examples']:,}"
    yield "rows left out: too long", f"{report['num_cut']:,}"
    yield "tokens", f"{report['num_tokens']:,}"
    yield "tokens trained", f"{report['num_trained_tokens']:,}"
    yield "steps", f"{report['num_total_steps']:,}"
    values = (report["spec"] or {}).get("hyperparameters", {})
    for name in ("n_epochs", "batch_size", "learning_rate", "lora_rank", "max_length"):
        if name in values:
            yield name, f"{values[name]:g}" if isinstance(values[name], float) else f"{values[name]:,}"
    if estimate := report.get("estimated_s"):
        yield "estimated time", format_duration(estimate)


def memory(terms: Mapping[str, int]) -> Iterator[tuple[str, str]]:
    for name, num_bytes in terms.items():
        yield name.replace("_", " "), format_size(num_bytes)
    yield "sum", format_size(sum(terms.values()))


def table(rows: Sequence[tuple[str, str]]) -> str:
    """Two columns: names to the left, values to the right."""
    width, value_width = (max(map(len, column)) for column in zip(*rows, strict=True))
    return "\n".join(f"  {name:<{width}}  {value:>{value_width}}" for name, value in rows) + "\n"
