"""An environment for each real client, created on demand under .clients/ and kept for the next run.

`python -m tests.clients.environments` creates all of them, as scripts/test.sh does while the linters run.
"""

import subprocess
import sys
import venv
from pathlib import Path

from scripts import uv_install

ENVIRONMENTS = Path(__file__).parents[2] / ".clients"

# What the clients of Llama Stack depend on, in one environment that theirs extend: pandas alone has 100 MB.
LLAMA_STACK = "llama-stack-dependencies"
LLAMA_STACK_DEPENDENCIES = (
    *(
        "anyio",
        "click",
        "distro",
        "prompt_toolkit",
        "pyaml",
        "pydantic",
        "rich",
        "sniffio",
        "tabulate",
        "tqdm",
    ),
    *(
        "fire==0.7.1",
        "httpx==0.28.1",
        "numpy==2.2.6",
        "pandas==2.2.3",
        "requests==2.32.4",
        "termcolor==3.1.0",
    ),
)
# The clients since 0.2.13 declare Python 3.12, and run with 3.11 and these packages.
LATER = ("--python-version=3.12", "--only-binary=:all:")
PIP_OPTIONS = {"--python-version=3.12": "--ignore-requires-python"}  # pip's options for uv's

# What the clients of Tinker and tinker-cookbook import. The cookbook's driver takes torch and transformers of
# the server. The cookbook itself is installed alone: it declares a package for one family of models that
# cannot be had.
TINKER = "tinker-dependencies"
TINKER_DEPENDENCIES = (
    "tinker==0.38.0",
    "aiohttp==3.14.5",
    "blobfile==3.3.0",
    "chz==0.4.0",
    "cloudpickle==3.1.3",
    "datasets==5.2.0",
    "pillow==13.0.0",
    "pyrage==1.4.0",
    "termcolor==3.3.0",
    "tiktoken==0.14.0",
)

# Also what text-generation depends on.
HUGGINGFACE_HUB = "huggingface-hub-0.36"

# The clients of each environment that extends another one; nothing that they depend on is installed.
EXTENSIONS = {
    "llama-stack-0.0.41": (LLAMA_STACK, "llama-stack-client==0.0.41", "httpx==0.27.2"),
    "llama-stack-0.0.50": (LLAMA_STACK, "llama-stack-client==0.0.50", "httpx==0.27.2"),
    "llama-stack-0.0.63": (LLAMA_STACK, "llama-stack-client==0.0.63"),
    "llama-stack-0.1.0": (LLAMA_STACK, "llama-stack-client==0.1.0"),
    "llama-stack-0.1.9": (LLAMA_STACK, "llama-stack-client==0.1.9"),
    "llama-stack-0.2.12": (LLAMA_STACK, "llama-stack-client==0.2.12"),
    "llama-stack-0.2.23": (LLAMA_STACK, *LATER, "llama-stack-client==0.2.23"),
    "llama-stack-0.3.5": (LLAMA_STACK, *LATER, "llama-stack-client==0.3.5"),
    "llama-stack-0.6.0": (LLAMA_STACK, *LATER, "llama-stack-client==0.6.0"),
    "llama-stack-0.7.0": (LLAMA_STACK, *LATER, "llama-stack-client==0.7.0"),
    "llama-stack-0.7.5": (LLAMA_STACK, *LATER, "llama-stack-client==0.7.5"),
    "openai-1": ("langchain-openai", "openai==1.109.1"),
    "openai-3": ("guidance-0.3", "openai==3.57.0"),
    "text-generation-0.6.1": (HUGGINGFACE_HUB, "text-generation==0.6.1"),
    "text-generation-0.7.0": (HUGGINGFACE_HUB, "text-generation==0.7.0"),
    "tinker-0.15": (TINKER, "tinker==0.15.0"),
    "tinker-0.25": (TINKER, "tinker==0.25.0"),
    "tinker-0.38": (TINKER, "tinker==0.38.0"),
    "tinker-cookbook-0.6.1": (TINKER, "tinker-cookbook==0.6.1"),
}

# The pins of each other environment: the client, then what it does not declare, or not closely enough.
PINS = {
    LLAMA_STACK: LLAMA_STACK_DEPENDENCIES,
    TINKER: TINKER_DEPENDENCIES,
    "llama-stack-distribution-0.2.12": (
        "llama-stack==0.2.12",
        "llama-stack-client==0.2.12",
        "aiohttp==3.14.5",
        "aiosqlite==0.22.1",
        "fastapi==0.165.0",
        "fire==0.7.1",
        "mcp==2.3.0",
        "openai==3.52.0",
        "opentelemetry-exporter-otlp-proto-http==1.45.2",
        "opentelemetry-sdk==1.45.2",
        "requests==2.34.2",
        "sqlalchemy[asyncio]==2.1.9",
        "starlette==1.10.0",
        "uvicorn==0.54.0",
    ),
    "guidance-0.3": ("guidance==0.3.1", "openai==3.57.0"),
    "langchain-openai": ("langchain-openai==1.0.3", "openai==1.109.1"),
    HUGGINGFACE_HUB: ("huggingface_hub==0.36.0", "aiohttp==3.14.5", "pydantic==2.14.4"),
    "huggingface-hub-2.4": ("huggingface_hub==2.4.0",),
}


def python(name: str) -> Path:
    """The interpreter of the environment `name`, which is created again if its pins have changed."""
    extended, *clients = EXTENSIONS.get(name, ("",))
    home, pins = ENVIRONMENTS / name, (*PINS[extended or name], *clients)
    stamp = home / "pins.txt"
    if not stamp.exists() or stamp.read_text() != "\n".join(pins):
        if extended:
            create_environment(home, "--no-deps", *clients)
            packages_of(home).joinpath("extended.pth").write_text(
                str(packages_of(python(extended).parents[1]))
            )
        else:
            create_environment(home, *pins)
        stamp.write_text("\n".join(pins))
    return home / "bin/python"


def packages_of(home: Path) -> Path:
    return next(home.glob("lib/python*/site-packages"))


def create_environment(home: Path, *pins: str) -> None:
    """Creates an environment without pip: this process's uv installs the pins, and compiles nothing. It links
    files from its cache. Where it fails, this process's pip installs.
    """
    venv.create(home, clear=True, symlinks=True)
    options = ("--quiet", "--no-compile", "--target", packages_of(home))
    if not uv_install.install((*options, *pins), python=home / "bin/python"):
        pip = [sys.executable, "-m", "pip", "--python", home / "bin/python", "install", *options]
        subprocess.run([*pip, *(PIP_OPTIONS.get(pin, pin) for pin in pins)], check=True)


if __name__ == "__main__":
    for name in (*PINS, *EXTENSIONS):
        python(name)
