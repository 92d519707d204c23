"""How much memory a model's weights will take, guessed before any library is loaded: from the files that are
here, and what there is of memory.

A wrong guess costs some time. Knows the settings, the folders of models and the kernel's files.
"""

import os
from collections.abc import Iterator
from pathlib import Path

from inference.containers import GROUPS, OWN, accounts
from settings.fields import Settings

SHARE = 4  # of the memory that is free, a fourth at most is made ready
SAVED = {"none": 1.0, "int8": 0.5, "int4": 0.35}  # of the files' bytes, what native matrices take
# Of DTYPE, with which most weights stay mapped from their files until they are packed. Others are converted,
# which takes memory enough.
AS_STORED = ("auto", "stored", "bfloat16")
# In the config.json of a model whose experts are put together as they are read, which takes memory as well.
EXPERTS = b"experts"
GPU = Path("/dev/nvidiactl")
MEMORY = Path("/proc/meminfo")


def weights(settings: Settings) -> int:
    """Bytes; 0 where native matrices of this process will not hold them, or nothing of the model is here."""
    elsewhere = settings.device == "cuda" or (settings.device == "auto" and GPU.exists())
    if elsewhere or settings.layers or settings.num_shard > 1 or settings.dtype not in AS_STORED:
        return 0
    home = folder(settings)
    try:
        sizes = [path.stat().st_size for path in home.glob("*.safetensors")]
        if not sizes or EXPERTS in (home / "config.json").read_bytes():
            return 0
    except OSError:
        return 0
    return int(sum(sizes) * SAVED.get(settings.quantise, 0))


def folder(settings: Settings) -> Path:
    """Of the model's files: its own, or the last one that came into the cache. It need not exist."""
    name = settings.model_name
    if name.startswith(("/", ".", "~")):
        return Path(name).expanduser()
    home = Path(os.environ.get("HF_HOME") or Path("~/.cache/huggingface").expanduser())
    cache = Path(settings.cache_dir or os.environ.get("HF_HUB_CACHE") or home / "hub").expanduser()
    found = (cache / f"models--{name.replace('/', '--')}" / "snapshots").glob("*")
    return max(found, key=lambda path: path.stat().st_mtime, default=Path(name))


def memory() -> int:
    """Bytes that can be made ready without harm."""
    return max(0, min(free(), default=0)) // SHARE


def free() -> Iterator[int]:
    """What the machine has, and what each container that this process is in may still have.

    File pages that a container could have back are left to it: they may be the model's.
    """
    if not MEMORY.exists():
        yield 0
        return
    lines = dict(line.split(":", 1) for line in MEMORY.read_text().splitlines())
    yield int(lines.get("MemAvailable", "0 kB").split()[0]) * 1024
    yield from (account.limit - account.used for account in accounts(GROUPS, OWN))
