"""Memory of the server in addition to weights, KV cache and activations: constants and measurements."""

from dataclasses import dataclass

from inference.native.prefault import prefaulted_bytes
from inference.process.memory.rss import resident_memory


@dataclass(frozen=True, slots=True)
class Overhead:
    """Bytes.

    baseline    RAM of Python, the libraries and our own code before any model is loaded. `measure_overhead`
                reads it from the kernel (RssAnon + RssFile + RssShmem of this process, without `prefaulted`);
                the default was read the same way with torch 2.13 and transformers 5.23 on Linux x86-64.
    private     RAM that this process already holds and that no file backs. The kernel no longer counts it as
                free, and the server does not need it a second time. `measure_overhead` reads it.
    prefaulted  RAM that inference/native/prefault.py has reserved for weights; no part of `baseline`.
                `measure_overhead` reads it.
    runtime     RAM that comes with any model: thread stacks and what libraries allocate at first use.
                Measured on two cores, models in float32: resident memory when a model was ready, less
                weights, tokenizer and `baseline`.
    workspaces  RAM of the work buffers of matrix products; a small model's are no larger than its weights. In
                16 bits the first forward pass allocates them, while the model is loaded; in float32 the first
                large step does. Measured likewise, with and without AMX.
    cuda        memory of each GPU that CUDA and its libraries take in addition to tensors: the context,
                kernels, workspaces and CUDA graphs. Measured on an H100 with torch 2.11 (CUDA 13.0), models
                of 1 and 8 B ready to serve: memory in use, less what torch has reserved, 0.83 to 0.85 GB.
    """

    baseline: int = 390_000_000
    private: int = 0
    prefaulted: int = 0
    runtime: int = 30_000_000
    workspaces: int = 30_000_000
    cuda: int = 840_000_000

    @property
    def ram(self) -> int:
        return self.baseline + self.runtime


DEFAULT_OVERHEAD = Overhead()


def measure_overhead() -> Overhead:
    """The constants, and the RAM of this process as it is now."""
    memory, prefaulted = resident_memory(), prefaulted_bytes()
    return Overhead(baseline=memory.total - prefaulted, private=memory.own, prefaulted=prefaulted)
