"""The entry point: python3 main.py. Reads the settings, then startup.py checks, fetches, loads and serves.

Reads the command line and .env, and validates the settings before the libraries are imported, so that --help
and a wrong setting are answered at once.
"""

import sys

if sys.version_info < (3, 11):  # noqa: UP036 - an older Python gets a message, not a traceback
    sys.exit("hearth: Python 3.11 or newer is needed, and this is " + sys.version.split()[0])

import gc
import logging
import os
import tomllib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from checks import versions
from inference.native import prefault, prefault_estimate
from settings import flags, help, logs
from settings.schema import BadSetting, Settings
from settings.sources import Source, read_config_file, read_env_file, read_environment, resolve, warnings

HOME = Path(__file__).resolve().parent

log = logging.getLogger("hearth")

NO_MEMORY_FOR_LIBRARIES = (
    "not enough memory to import the libraries, which takes 0.5 GB: raise ulimit -v, ulimit -d "
    "or the container's memory limit"
)


def main(arguments: list[str]) -> int:
    """Run a command line. Returns the exit code: 0 success; 1 refused; 2 a wrong setting; 130 interrupted."""
    try:
        command = flags.parse(arguments)
        if "--version" in command.actions:
            print(f"hearth {version()}")
            return 0
        setting_sources = read_sources(command.flags)
        settings = resolve(setting_sources)
        if "--help" in command.actions:
            print(help.help_text(settings, (HOME / "config.py").read_text()))
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
    return str(tomllib.loads((HOME / "pyproject.toml").read_text())["project"]["version"])


def read_sources(flag_source: Source) -> tuple[Source, ...]:
    """config.py, .env, the environment and the flags: later ones override earlier ones. Raises BadSetting."""
    return (
        read_config_file(HOME / "config.py"),
        read_env_file(HOME / ".env"),
        read_environment(os.environ),
        flag_source,
    )


def prepare_environment(settings: Settings) -> None:
    """Configure logging, and set the environment variables that the libraries read when they are imported."""
    logs.configure_logging(settings.log_level, as_json=settings.json_output)
    os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")
    if "PYTORCH_ALLOC_CONF" not in os.environ:
        # Freed memory is used again for any size: else merging projections wastes up to 24 % of the weights.
        os.environ.setdefault("PYTORCH_CUDA_ALLOC_CONF", "expandable_segments:True")
    if settings.offline:
        os.environ["HF_HUB_OFFLINE"] = "1"
    if settings.device == "cpu" and settings.num_shard > 1:
        os.environ["CUDA_VISIBLE_DEVICES"] = ""  # transformers puts the shards on GPUs if it sees any
    if settings.threads:
        os.environ["OMP_NUM_THREADS"] = str(settings.threads)


def start(settings: Settings, actions: frozenset[str]) -> int:
    """Import the libraries while the model is looked up, then run the action. Returns the exit code.

    A missing or outdated library is reported.
    """
    if outdated := versions.describe_outdated():
        print(f"hearth: {outdated}", file=sys.stderr)
        return 1
    loads_model = not actions & {"--env", "--check", "--download"}
    try:
        with (
            gc_disabled(),
            prefault.prefaulting(
                prefault_estimate.estimate_weight_bytes(settings) if loads_model else 0,
                prefault_estimate.estimate_free_bytes(),
            ),
        ):
            if "--env" in actions:
                from startup import print_environment

                return print_environment(version())
            from hub.resolve import resolve_in_background

            pending = resolve_in_background(settings, HOME, refresh="--download" in actions)
            from startup import check, download, run_selftest, serve
    except ModuleNotFoundError as error:
        return report_missing_package(error)
    except MemoryError:
        print(f"hearth: {NO_MEMORY_FOR_LIBRARIES}", file=sys.stderr)
        return 1
    if "--check" in actions:
        return check(settings, pending, as_json="--json" in actions)
    if "--download" in actions:
        return download(settings, pending)
    if "--selftest" in actions:
        return run_selftest(settings, pending, as_json="--json" in actions)
    return serve(settings, pending, version())


@contextmanager
def gc_disabled() -> Iterator[None]:
    """Disable garbage collection, then exempt everything created meanwhile from it.

    The imported modules live as long as the process. Collecting over them again and again, the last time at
    exit, takes more than a third of a --check: 4.4 s without this, 2.7 s with it.
    """
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        gc.enable()


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
    sys.exit(main(sys.argv[1:]))
