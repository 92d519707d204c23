"""Installs packages with uv: `python -m scripts.uv_install` takes the arguments of `uv pip install`.

uv takes a fraction of pip's time, but does not read pip's configuration: its files and its PIP_ variables.
UV_VARIABLES tells uv what they say. The exit code is 1 without uv, with a setting of pip that uv does not
know, and if uv fails: the caller then uses pip. Needs no other package than uv.
"""

import ast
import importlib.util
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import NamedTuple

SECTIONS = ("global", "install", ":env:")  # of pip's configuration; a later one prevails


class UvVariable(NamedTuple):
    """An environment variable of uv. separator: between several values; pip has spaces."""

    name: str
    separator: str = " "


# By the setting of pip. What uv reads: docs.astral.sh/uv/reference/environment.
UV_VARIABLES = {
    "cert": UvVariable("SSL_CERT_FILE"),
    "client-cert": UvVariable("SSL_CLIENT_CERT"),
    "constraint": UvVariable("UV_CONSTRAINT"),
    "default-timeout": UvVariable("UV_HTTP_TIMEOUT"),
    "extra-index-url": UvVariable("UV_INDEX"),
    "find-links": UvVariable("UV_FIND_LINKS", ","),
    "index-url": UvVariable("UV_DEFAULT_INDEX"),
    "no-index": UvVariable("UV_NO_INDEX"),
    "proxy": UvVariable("ALL_PROXY"),
    "retries": UvVariable("UV_HTTP_RETRIES"),
    "timeout": UvVariable("UV_HTTP_TIMEOUT"),
    "trusted-host": UvVariable("UV_INSECURE_HOST"),
}
# Settings that change neither which packages are installed nor from where.
WITHOUT_EFFECT = {
    "cache-dir",
    "disable-pip-version-check",
    "no-cache-dir",
    "no-color",
    "no-compile",
    "no-input",
    "no-warn-script-location",
    "progress-bar",
    "quiet",
    "require-virtualenv",
    "root-user-action",
    "verbose",
}
LIKE_PIP = {"UV_INDEX_STRATEGY": "unsafe-best-match"}  # the best version of all indexes


def install(arguments: Sequence[str | Path], python: str | Path = sys.executable) -> bool:
    """Whether uv has installed the packages for the interpreter `python`."""
    if not (uv := find_uv()) or (variables := uv_variables()) is None:
        return False
    command = [*uv, "pip", "install", "--python", python, *arguments]
    return subprocess.run(command, env=variables | os.environ).returncode == 0


def find_uv() -> list[str]:
    """The command of uv: the one of this environment, or the one on the PATH; empty without."""
    if importlib.util.find_spec("uv"):
        return [sys.executable, "-m", "uv"]
    program = shutil.which("uv")
    return [program] if program else []


@cache
def uv_variables() -> dict[str, str] | None:
    """uv's environment variables for pip's configuration; None if it has a setting that uv does not know."""
    command = (sys.executable, "-m", "pip", "config", "list")
    done = subprocess.run(command, capture_output=True, text=True)
    return None if done.returncode else translate(parse_settings(done.stdout))


def parse_settings(printed: str) -> dict[str, str]:
    """pip's settings by name, from the lines of `pip config list`: section.name='value'."""
    settings = dict[tuple[str, str], str]()
    for line in printed.splitlines():
        key, _, value = line.partition("=")
        section, _, name = key.partition(".")
        settings[section, name] = ast.literal_eval(value)
    return {
        name: value for each in SECTIONS for (section, name), value in settings.items() if section == each
    }


def translate(settings: Mapping[str, str]) -> dict[str, str] | None:
    if settings.keys() - UV_VARIABLES.keys() - WITHOUT_EFFECT:
        return None
    known = {UV_VARIABLES[name]: value for name, value in settings.items() if name in UV_VARIABLES}
    return LIKE_PIP | {
        variable.name: variable.separator.join(value.split()) for variable, value in known.items()
    }


if __name__ == "__main__":
    sys.exit(not install(sys.argv[1:]))
