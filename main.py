"""Run it: python3 main.py. Reads the settings, then has launch.py check, fetch, load and serve.

Knows the command line and .env. No library is loaded before the settings are found right, so that a wrong
one, or --help, is answered at once.
"""

import sys

if sys.version_info < (3, 11):  # noqa: UP036 - whoever has an older one should not see how it fails
    sys.exit("hearth: Python 3.11 or newer is needed, and this is " + sys.version.split()[0])

import gc
import logging
import os
import tomllib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import guess
import logs
import packages
from inference.native import prepared
from settings import flags, usage
from settings.fields import BadSetting, Settings
from settings.layers import Layer, config_layer, environment_layer, file_layer
from settings.resolve import resolve, warnings

HOME = Path(__file__).resolve().parent

log = logging.getLogger("hearth")

STARVED = (
    "there is no memory for the libraries alone, which take half a GB: raise what ulimit -v, ulimit -d "
    "or the container's limit grants"
)


def main(arguments: list[str]) -> int:
    """The exit code: 0 served, or would serve; 1 refused; 2 a wrong setting."""
    try:
        command = flags.parse(arguments)
        if "--version" in command.actions:
            print(f"hearth {version()}")
            return 0
        given = layers(command.flags)
        settings = resolve(given)
        if "--help" in command.actions:
            print(usage.help_text(settings, (HOME / "config.py").read_text()))
            return 0
        prepare(settings)
        for told in warnings(given):
            log.warning(told)
        return launch(settings, command.actions)
    except BadSetting as error:
        print(f"hearth: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        return 130


def version() -> str:
    return str(tomllib.loads((HOME / "pyproject.toml").read_text())["project"]["version"])


def layers(given: Layer) -> tuple[Layer, ...]:
    """config.py, under .env, under the environment, under the flags. Raises BadSetting."""
    return (
        config_layer(HOME / "config.py"),
        file_layer(HOME / ".env"),
        environment_layer(os.environ),
        given,
    )


def prepare(settings: Settings) -> None:
    """Logging, and what torch and huggingface_hub read from the environment as they are imported."""
    logs.install(settings.log_level, as_json=settings.json_output)
    os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")
    if settings.offline:
        os.environ["HF_HUB_OFFLINE"] = "1"
    if settings.device == "cpu" and settings.num_shard > 1:
        os.environ["CUDA_VISIBLE_DEVICES"] = ""  # transformers shards over GPUs wherever it sees one
    if settings.threads:
        os.environ["OMP_NUM_THREADS"] = str(settings.threads)


def launch(settings: Settings, actions: frozenset[str]) -> int:
    """Load the libraries, while the model is looked up, and go on; or say which one is missing or too old."""
    if old := packages.too_old():
        print(f"hearth: {old}", file=sys.stderr)
        return 1
    serves = not actions & {"--env", "--check", "--download"}
    try:
        with uncollected(), prepared.filling(guess.weights(settings) if serves else 0, guess.memory()):
            if "--env" in actions:
                from launch import describe

                return describe(version())
            from ahead import looking_up

            source = looking_up(settings, HOME, anew="--download" in actions)
            from launch import check, download, prove, serve
    except ModuleNotFoundError as error:
        return missing(error)
    except MemoryError:
        print(f"hearth: {STARVED}", file=sys.stderr)
        return 1
    if "--check" in actions:
        return check(settings, source, as_json="--json" in actions)
    if "--download" in actions:
        return download(settings, source)
    if "--selftest" in actions:
        return prove(settings, source, as_json="--json" in actions)
    return serve(settings, source, version())


@contextmanager
def uncollected() -> Iterator[None]:
    """Libraries are loaded to stay: a collector that looks through them again and again, the last time as the
    process ends, takes more than a third of the time of a --check (4.4 s without this, 2.7 s with it)."""
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        gc.enable()


def missing(error: ModuleNotFoundError) -> int:
    """Say what to install. A module of this project that is not found is a bug, and raised."""
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
