"""Recognizes that the system refuses memory, a mapping or a thread, and how little is too little to start.

Limits of the address space (ulimit -v) and of containers end a program in many ways: a MemoryError, an error
of mmap, a library that aborts, a kill. Knows the kernel's files; imports no library.
"""

import errno
from collections.abc import Iterable

from inference.process.memory.cgroups import CgroupLimit

try:
    import resource
except ImportError:  # Windows has no such limits
    resource = None  # type: ignore[assignment]

# Importing torch and transformers. With less address space, a library aborts or hides a MemoryError.
LIBRARY_ADDRESS_SPACE = 1_000_000_000
LIBRARY_RAM = 400_000_000
NOT_ENOUGH = "not enough memory"
NO_MEMORY_FOR_LIBRARIES = (
    f"{NOT_ENOUGH} to import the libraries, which takes 0.4 GB of RAM and 1.0 GB of address space: "
    "raise ulimit -v, ulimit -d or the container's memory limit"
)
TOO_LITTLE_MEMORY = "the server has too little memory for this request"
REMEDY = "raise ulimit -v, ulimit -d or the container's memory limit, or free memory"
TORCH_ERROR = "OutOfMemoryError"  # the name of its class, which stands for any device
REFUSED_ERRNOS = frozenset((errno.ENOMEM, errno.EAGAIN))
# Parts of messages: of torch, cuBLAS, Python's threads, the dynamic linker, C++ and Rust.
REFUSED_TEXTS = (
    "can't allocate memory",
    "can't start new thread",
    "cannot allocate memory",
    "cublas_status_alloc_failed",
    "failed to map segment",
    "memory allocation",
    "memoryerror",
    "out of memory",
    "std::bad_alloc",
)


def is_memory_shortage(error: BaseException) -> bool:
    """Whether the system has refused memory or a thread; also if that is the cause of the error."""
    if isinstance(error, MemoryError) or type(error).__name__ == TORCH_ERROR:
        return True
    if isinstance(error, OSError) and error.errno in REFUSED_ERRNOS:
        return True
    if names_memory_shortage(str(error)):
        return True
    cause = error.__cause__ or error.__context__
    return cause is not None and is_memory_shortage(cause)


def names_memory_shortage(text: str) -> bool:
    """Whether the message of an error, or the last line of a program, says that memory was refused."""
    return any(refused in text.lower() for refused in REFUSED_TEXTS)


def describe(error: BaseException) -> str:
    """A memory shortage at the start, with its remedy."""
    reason = f"{type(error).__name__}: {error}".splitlines()[0].removesuffix(": ")
    return f"{NOT_ENOUGH} ({reason}): {REMEDY}"


def has_memory_for_libraries(free_address_space: int | None, containers: Iterable[CgroupLimit]) -> bool:
    """Whether the libraries can be imported; containers: the limits around this process."""
    free_ram = [limit.limit - limit.used + limit.reclaimable for limit in containers]
    has_address_space = free_address_space is None or free_address_space >= LIBRARY_ADDRESS_SPACE
    return has_address_space and min(free_ram, default=LIBRARY_RAM) >= LIBRARY_RAM


def read_free_address_space() -> int | None:
    """Bytes that this process may still map; None if there is no limit."""
    limit = resource.getrlimit(resource.RLIMIT_AS)[0] if resource else -1
    if resource is None or limit == resource.RLIM_INFINITY:
        return None
    try:
        with open("/proc/self/statm", encoding="utf-8") as statm:
            return limit - int(statm.read().split()[0]) * resource.getpagesize()
    except OSError:
        return limit
