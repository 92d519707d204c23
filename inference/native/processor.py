"""What the processor can do, in the kernel's own names."""

from pathlib import Path


def processor_features(path: Path = Path("/proc/cpuinfo")) -> set[str]:
    """The kernel's names for what the processor can do; empty where it does not say."""
    if not path.exists():
        return set()
    lines = (line.partition(":") for line in path.read_text().splitlines())
    return next(
        (set(value.split()) for key, _, value in lines if key.strip() in ("flags", "Features")), set()
    )
