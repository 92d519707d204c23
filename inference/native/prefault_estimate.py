"""Estimates how much memory to prefault for a model's weights, from its local files and the free memory.

Runs before any library is imported. A wrong estimate costs only time. Knows the settings, the folders of
models and the kernel's files.
"""

import os
from collections.abc import Iterator
from pathlib import Path

from inference.native.weight_cache.source_files import (
    cached_files,
    digest_source_files,
    read_source_files,
    weight_cache_folder,
)
from inference.process.memory.cgroups import CGROUP_ROOT, OWN_CGROUPS, memory_limits
from settings.schema import Settings

MEMORY_DIVISOR = 4  # at most a fourth of the free memory is prefaulted
# Native matrices by QUANTIZE, relative to the files' bytes.
QUANTIZED_SIZE = {"none": 1.0, "int8": 0.5, "int4": 0.35}
QUANTIZED_SIZE |= {"q8_0": 0.53, "q6_k": 0.41, "q5_k_m": 0.36, "q4_k_m": 0.3, "q4_0": 0.28}
# Values of DTYPE with which most weights stay mapped from their files until they are packed. Other dtypes are
# converted first: the copies need the memory.
MAPPED_DTYPES = ("auto", "stored", "bfloat16")
# In the config.json of a mixture of experts: the loader merges experts, which needs the memory.
EXPERTS_KEY = b"experts"
NVIDIA_DEVICE = Path("/dev/nvidiactl")
MEMINFO = Path("/proc/meminfo")


def estimate_weight_bytes(settings: Settings) -> int:
    """Bytes of the packed weights; 0 if this process will not pack them, or the files are not local."""
    if not settings.model_name:  # all models run on other servers
        return 0
    is_on_gpu = settings.device == "cuda" or (settings.device == "auto" and NVIDIA_DEVICE.exists())
    if is_on_gpu or settings.layers or settings.num_shard > 1 or settings.dtype not in MAPPED_DTYPES:
        return 0
    model_files = find_model_folder(settings)
    try:
        sizes = [path.stat().st_size for path in model_files.glob("*.safetensors")]
        config = model_files / "config.json"
        if not sizes or EXPERTS_KEY in config.read_bytes() or has_packed_weights(settings, model_files):
            return 0
    except OSError:
        return 0
    return int(sum(sizes) * QUANTIZED_SIZE.get(settings.quantize, 0))


def has_packed_weights(settings: Settings, model_files: Path) -> bool:
    """Whether an earlier start has kept packed weights, which are mapped. Raises OSError."""
    folder = weight_cache_folder(settings.weight_cache_dir)
    source_files = read_source_files([*model_files.glob("model*.safetensors"), model_files / "config.json"])
    return folder is not None and bool(cached_files(folder, digest_source_files(source_files)))


def find_model_folder(settings: Settings) -> Path:
    """The model's folder, or the newest snapshot of a Hub model in the cache. May not exist."""
    name = settings.model_name
    if name.startswith(("/", ".", "~")):
        return Path(name).expanduser()
    home = Path(os.environ.get("HF_HOME") or Path("~/.cache/huggingface").expanduser())
    cache_dir = Path(settings.cache_dir or os.environ.get("HF_HUB_CACHE") or home / "hub").expanduser()
    snapshots = (cache_dir / f"models--{name.replace('/', '--')}" / "snapshots").glob("*")
    return max(snapshots, key=lambda path: path.stat().st_mtime, default=Path(name))


def estimate_free_bytes() -> int:
    """Bytes that can be prefaulted safely."""
    return max(0, min(iter_free_bytes(), default=0)) // MEMORY_DIVISOR


def iter_free_bytes() -> Iterator[int]:
    """The free bytes of the machine, and of each container around this process.

    Reclaimable file pages of a container do not count as free: they may be the model's.
    """
    if not MEMINFO.exists():
        yield 0
        return
    lines = dict(line.split(":", 1) for line in MEMINFO.read_text("utf-8").splitlines())
    yield int(lines.get("MemAvailable", "0 kB").split()[0]) * 1024
    yield from (account.limit - account.used for account in memory_limits(CGROUP_ROOT, OWN_CGROUPS))
