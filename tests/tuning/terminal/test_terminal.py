"""The text of a dry run and the progress bar."""

import io
from typing import Any

import pytest

from tuning.terminal.dry_run_report import dry_run_report
from tuning.terminal.progress_bar import ProgressBar, format_duration
from tuning.terminal.server_client import FileForm

REPORT: dict[str, Any] = {
    "shown_rows": [
        {
            "line": 1,
            "label": "",
            "num_tokens": 5,
            "num_trained_tokens": 2,
            "segments": [
                {"text": "<user>hi\n<assistant>", "is_trained": False, "num_tokens": 3},
                {"text": "hello<end>", "is_trained": True, "num_tokens": 2},
            ],
        }
    ],
    "num_examples": 1200,
    "num_cut": 3,
    "num_tokens": 6000,
    "num_trained_tokens": 2400,
    "num_total_steps": 60,
    "spec": {"hyperparameters": {"n_epochs": 3, "learning_rate": 0.003}},
    "memory_plan": {"frozen_weights": 100_000_000, "activations": 20_000_000},
    "messages": ["3 rows were left out."],
}


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def figures(step: int, **further: Any) -> dict[str, Any]:
    values = {
        "step": step,
        "total_steps": 20,
        "train_loss": 0.5,
        "learning_rate": 1e-3,
        "tokens_per_second": 900,
    }
    return values | further


def test_a_dry_run_marks_trained_text_and_lines_up() -> None:
    assert dry_run_report(REPORT, use_colour=False) == (
        "Line 1: 2 of 5 tokens are trained\n"
        "  <user>hi\n"
        "  <assistant>⟦hello<end>⟧\n"
        "\n"
        "  rows                     1,200\n"
        "  rows left out: too long      3\n"
        "  tokens                   6,000\n"
        "  tokens trained           2,400\n"
        "  steps                       60\n"
        "  n_epochs                     3\n"
        "  learning_rate            0.003\n"
        "\n"
        "Memory of the training process:\n"
        "  frozen weights  100.0 MB\n"
        "  activations      20.0 MB\n"
        "  sum             120.0 MB\n"
        "\n"
        "- 3 rows were left out."
    )


def test_a_terminal_shows_trained_text_in_a_colour() -> None:
    assert "\x1b[32mhello<end>\x1b[0m" in dry_run_report(REPORT, use_colour=True)


def test_the_bar_is_written_again_on_its_line() -> None:
    output = Terminal()
    bar = ProgressBar(output, now=lambda: 100)
    bar.update(figures(5), 132)
    bar.print_message("Checkpoint created")
    bar.update(figures(20), None)
    bar.end()
    first, second, third = output.getvalue().split("\r")[1:4]
    line = "[########......................]   25 %  step 5/20  loss 0.5000  900 tokens/s  ETA 0:32"
    assert first == line and second.isspace()
    assert third == f"Checkpoint created\n{line}"
    assert output.getvalue().rstrip().endswith("100 %  step 20/20  loss 0.5000  900 tokens/s")


def test_a_terminal_shows_what_the_job_waits_for_until_its_first_step() -> None:
    output = Terminal()
    bar = ProgressBar(output, now=lambda: 100)
    bar.show_wait("checking the rows", 2.2)
    bar.print_message("Files validated")
    bar.show_wait("preparing the first step", 17)
    bar.update(figures(1), None)
    bar.show_wait("preparing the first step", 18)
    waiting, erased, message, preparing, step = output.getvalue().split("\r")[1:]
    assert waiting == "checking the rows  0:02" and erased.isspace() and len(erased) == len(waiting)
    assert message == f"Files validated\n{waiting}" and preparing == "preparing the first step  0:17"
    assert step.startswith("[##")


def test_a_job_that_fails_before_its_first_step_leaves_no_line() -> None:
    output = Terminal()
    bar = ProgressBar(output)
    bar.show_wait("checking the rows", 0)
    bar.end()
    line = "checking the rows  0:00"
    assert output.getvalue() == f"\r{line}\r{' ' * len(line)}\r"


def test_a_file_shows_no_wait() -> None:
    output = io.StringIO()
    ProgressBar(output).show_wait("checking the rows", 3)
    assert not output.getvalue()


def test_a_file_gets_a_line_for_each_tenth() -> None:
    output = io.StringIO()
    bar = ProgressBar(output, now=lambda: 0)
    for step in range(1, 21):
        bar.update(figures(step), None)
    bar.update({"step": 20, "total_steps": 20, "valid_loss": 0.4}, None)
    assert len(output.getvalue().splitlines()) == 11


@pytest.mark.parametrize(("seconds", "text"), [(0, "0:00"), (42.4, "0:42"), (60, "1:00"), (3723, "1:02:03")])
def test_durations_are_minutes_or_hours(seconds: float, text: str) -> None:
    assert format_duration(seconds) == text


def test_an_upload_has_the_length_that_it_says() -> None:
    file_form = FileForm(io.BytesIO(b"x" * 1000), 'a"b.jsonl')
    body = b"".join(iter(lambda: file_form.read(300), b""))
    assert len(body) == len(file_form) and b'filename="a%22b.jsonl"' in body and body.count(b"x" * 1000) == 1


def test_a_dry_run_says_what_to_do_where_the_memory_is_short() -> None:
    finding = {"ok": False, "have": "1.0 GB free", "fix": "set batch_size=1"}
    assert "It does not fit, 1.0 GB free: set batch_size=1" in dry_run_report(
        REPORT | {"memory": finding}, False
    )
