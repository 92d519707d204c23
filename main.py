"""The entry point: python3 main.py. Reads the settings, then startup/ checks, fetches, loads and serves.

Reads the command line and .env, and validates the settings before the libraries are imported, so that --help
and a wrong setting are answered at once.
"""

import sys

if sys.version_info < (3, 11):  # noqa: UP036 - an older Python gets a message, not a traceback
    sys.exit("hearth: Python 3.11 or newer is needed, and this is " + sys.version.split()[0])

import logging
import os
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

from checks.installation import versions
from inference.native import prefault, prefault_estimate
from inference.process.closed_output import exit_with
from inference.process.imports.fast_imports import fast_imports
from inference.process.memory import memory_shortage
from inference.process.memory.cgroups import memory_limits
from inference.process.memory.malloc import limit_arenas
from settings import flags, help, logs
from settings.schema import BadSetting, Settings
from settings.sources import read_sources, resolve, warnings

HOME = Path(__file__).resolve().parent

log = logging.getLogger("hearth")


def main(arguments: list[str]) -> int:
    """Run a command line. Returns the exit code: 0 success; 1 refused; 2 a wrong setting; 130 interrupted.

    Raises BrokenPipeError if nobody reads the output any more.
    """
    try:
        command = flags.parse(arguments)
        if "--version" in command.actions:
            print(f"hearth {version()}")
            return 0
        setting_sources = (*read_sources(HOME, os.environ), command.flags)
        settings = resolve(setting_sources)
        if "--help" in command.actions:
            print(help.help_text(settings, (HOME / "config.py").read_text("utf-8")))
            return 0
        prepare_environment(settings)
        for warning in warnings(setting_sources):
            log.warning(warning)
        return start(settings, command.actions)
    except BadSetting as error:
        print(f"hearth: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        return 130


def version() -> str:
    return str(tomllib.loads((HOME / "pyproject.toml").read_text("utf-8"))["project"]["version"])


def prepare_environment(settings: Settings) -> None:
    """Configure logging, and set the environment variables that the libraries read when they are imported."""
    logs.configure_logging(settings.log_level, as_json=settings.json_output)
    os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")
    # Tokenizing many texts on all cores would keep the engine from them.
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    if former_cache := os.environ.get("TRANSFORMERS_CACHE"):  # until transformers 4: before HF_HOME
        os.environ.setdefault("HF_HUB_CACHE", former_cache)
    if "PYTORCH_ALLOC_CONF" not in os.environ:
        # Freed memory is used again for any size: else merging projections wastes up to 24 % of the weights.
        os.environ.setdefault("PYTORCH_CUDA_ALLOC_CONF", "expandable_segments:True")
    if settings.offline:
        os.environ["HF_HUB_OFFLINE"] = "1"
    if settings.device == "cpu" and settings.num_shard > 1:
        os.environ["CUDA_VISIBLE_DEVICES"] = ""  # transformers puts the shards on GPUs if it sees any
    # Threads give up their core at a barrier: spinning, a load on busy cores took three times as long.
    os.environ.setdefault("GOMP_SPINCOUNT", "100")
    if settings.threads:
        os.environ["OMP_NUM_THREADS"] = str(settings.threads)


def start(settings: Settings, actions: frozenset[str], *, is_child: bool = False) -> int:
    """Run the action. Returns the exit code. Reports an outdated library, and too little memory.

    is_child: this process serves one model of another server of this project, its parent
    """
    if outdated := versions.describe_outdated():
        print(f"hearth: {outdated}", file=sys.stderr)
        return 1
    free_address_space = memory_shortage.read_free_address_space()
    if not memory_shortage.has_memory_for_libraries(free_address_space, memory_limits()):
        print(f"hearth: {memory_shortage.NO_MEMORY_FOR_LIBRARIES}", file=sys.stderr)
        return 1
    if free_address_space is not None:
        limit_arenas()
    try:
        return run_action(settings, actions, is_child=is_child)
    except Exception as error:
        if not memory_shortage.is_memory_shortage(error):
            raise
        print(f"hearth: {memory_shortage.describe(error)}", file=sys.stderr)
        return 1


def run_action(settings: Settings, actions: frozenset[str], *, is_child: bool) -> int:
    """Import the libraries while the model is looked up, then run the action. Returns the exit code.

    A missing library is reported.
    """
    runs_replicas = bool(settings.replicas.high) and not actions & {"--env", "--download", "--selftest"}
    loads_model = not (runs_replicas or actions & {"--env", "--check", "--download"})
    try:
        with (
            fast_imports(is_sharded=settings.num_shard > 1),
            prefault.prefaulting(
                prefault_estimate.estimate_weight_bytes(settings) if loads_model else 0,
                prefault_estimate.estimate_free_bytes(),
            ),
        ):
            if "--env" in actions:
                from checks.environment import report

                print(report(version()))
                return 0
            if not settings.model_name:
                return run_action_on_several(settings, actions)
            if runs_replicas:
                return run_action_on_replicas(settings, actions)
            from hub.resolve import resolve_in_background

            pending = resolve_in_background(settings, HOME, refresh="--download" in actions)
            from startup.one_model import check, download, run_selftest
    except ModuleNotFoundError as error:
        return report_missing_package(error)
    if "--check" in actions:
        return check(settings, pending, as_json="--json" in actions)
    if "--download" in actions:
        return download(settings, pending)
    if "--selftest" in actions:
        return run_selftest(settings, pending, as_json="--json" in actions)
    return serve_model(settings, pending, is_child=is_child)


def serve_model(settings: Settings, pending: Callable[[], Any], *, is_child: bool) -> int:
    """Load the model and import the API at the same time, then serve. Returns the exit code.

    pending: waits for the repository of the model
    """
    from startup.one_model import start_loading

    loading = start_loading(settings, pending)
    if loading is None:
        return 1
    try:
        from startup.serve_one import serve
    except ModuleNotFoundError as error:
        return report_missing_package(error)
    return serve(loading, version(), is_child=is_child)


def run_action_on_several(settings: Settings, actions: frozenset[str]) -> int:
    """Run the action for models of which this process loads none itself."""
    from startup.several_models import check_several, download_several, selftest_several, serve_several

    if "--check" in actions:
        return check_several(settings, as_json="--json" in actions)
    if "--download" in actions:
        return download_several(settings)
    if "--selftest" in actions:
        return selftest_several(settings, as_json="--json" in actions)
    return serve_several(settings, version())


def run_action_on_replicas(settings: Settings, actions: frozenset[str]) -> int:
    """Run the action for a model that a Ray cluster runs."""
    from startup.replicas import check_on_cluster, serve_on_cluster

    if "--check" in actions:
        return check_on_cluster(settings, as_json="--json" in actions)
    return serve_on_cluster(settings, version())


def report_missing_package(error: ModuleNotFoundError) -> int:
    """Print what to install. Re-raises the error for a module of this project: that is a bug."""
    package = (error.name or "").partition(".")[0]
    if not package or (HOME / package).exists() or (HOME / f"{package}.py").exists():
        raise error
    print(
        f"hearth: the Python package {package} is not installed: run scripts/setup.sh, "
        "or pip3 install -r requirements.txt",
        file=sys.stderr,
    )
    return 1


if __name__ == "__main__":
    exit_with(main)
