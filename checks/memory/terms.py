"""The memory that a plan needs on one device, term by term, predicted before the weights are fetched.

On the CPU: the resident memory of this process as the kernel counts it (private pages and mapped file pages),
at two peaks. `loading` is the peak until the model is ready. `serving` is the peak up to the end of the first
full batch, in which max_sequences sequences reach the whole context. On a GPU: the process's GPU memory.
"""

from dataclasses import dataclass

from checks.memory import ModelSize, itemsize
from checks.memory.plan import Plan

# RAM for each token of the vocabulary: in the tokenizer, whose merges take most of it, and in the table of
# grammars. Measured with the vocabularies of GPT-2, Qwen 2 and Command R. Those of Llama 3 and Gemma have two
# merges a token, and 1,700 bytes: how many merges there are is unknown before the download.
TOKENIZER_BYTES_PER_ENTRY = 1000
GRAMMAR_BYTES_PER_ENTRY = 650
FLOAT_BYTES = 4
SAMPLING_BYTES_PER_LOGIT = 2 * FLOAT_BYTES  # the sampler's float32 copy of a logit, and its noise
HEAP_FACTOR = 1.5  # heap bytes per byte in tensors: blocks of changing sizes fragment the heap
PARITY_TOKENS = 64  # tokens whose reference logits stay in memory while runners are tried


@dataclass(frozen=True, slots=True)
class DeviceTerms:
    """Bytes on one device.

    baseline     the libraries, this code and the tokenizer; on a GPU what CUDA takes in addition to tensors
    weights      the weights when the model is ready
    adapters     the adapters that the start loads
    draft_model  weights, KV cache and step of the draft model
    kv           KV cache and recurrent states of the running sequences
    activations  of a step of max_batch_tokens tokens, with the work buffers that it allocates
    logits       of a step of max_sequences rows, with the sampler's copies
    load_peak    private memory that only loading needs
    page_cache   mapped pages of the weight files, which the kernel may drop: resident, but not required
    grammars     the table of the vocabulary that the first structured answer makes
    """

    baseline: int
    weights: int
    adapters: int
    kv: int
    activations: int
    logits: int
    load_peak: int
    page_cache: int
    draft_model: int = 0
    grammars: int = 0

    @property
    def step(self) -> int:
        return self.activations + self.logits

    @property
    def when_ready(self) -> int:
        """What is there before the first request, without the KV cache."""
        return self.baseline + self.weights + self.adapters + self.draft_model

    @property
    def fixed(self) -> int:
        """Everything except the KV cache."""
        return self.when_ready + self.grammars + self.step

    @property
    def serving(self) -> int:
        return self.fixed + self.kv

    @property
    def loading(self) -> int:
        return self.baseline + self.weights + self.load_peak + self.page_cache

    @property
    def required(self) -> int:
        """The least memory that loading and serving need."""
        return max(self.serving, self.loading - self.page_cache)


def compute_terms(
    plan: Plan, model_size: ModelSize, device: str, weights: int, kv_memory_bytes: int
) -> DeviceTerms:
    """The terms of `device`, with `weights` bytes of weights and `kv_memory_bytes` of KV cache."""
    is_ram, overhead = device == "cpu", plan.overhead
    tokenizer_bytes = model_size.vocab_size * TOKENIZER_BYTES_PER_ENTRY
    load_peak, page_cache = loading_memory(plan, model_size, weights) if is_ram else (0, 0)
    has_16_bits = itemsize(model_size.dtype) == 2
    workspaces = min(overhead.workspaces, weights) if is_ram else 0
    workspaces_when_ready = workspaces if has_16_bits else 0
    heap_factor = HEAP_FACTOR if is_ram and not model_size.is_fused else 1
    return DeviceTerms(
        baseline=overhead.ram + workspaces_when_ready + tokenizer_bytes if is_ram else overhead.cuda,
        weights=weights,
        adapters=adapter_bytes(plan, model_size, weights),
        kv=kv_memory_bytes,
        activations=int(model_size.activation_bytes_per_token * plan.max_batch_tokens * heap_factor)
        + workspaces
        - workspaces_when_ready,
        logits=plan.max_sequences
        * model_size.vocab_size
        * (itemsize(model_size.dtype) + SAMPLING_BYTES_PER_LOGIT),
        load_peak=load_peak,
        page_cache=page_cache,
        draft_model=draft_bytes(plan, device),
        grammars=model_size.vocab_size * GRAMMAR_BYTES_PER_ENTRY if is_ram else 0,
    )


def draft_bytes(plan: Plan, device: str) -> int:
    """Bytes of the draft model, which computes on the plan's device, the first of several."""
    draft = plan.draft_plan
    if draft is None or draft.model_size is None or not is_first_device(plan, device):
        return 0
    weights = bytes_of_weights(draft, draft.model_size)
    terms = compute_terms(draft, draft.model_size, device, weights, draft.kv_memory_bytes)
    return terms.weights + terms.kv + terms.step


def is_first_device(plan: Plan, device: str) -> bool:
    """Whether the device is the plan's, or the first of several: what serves the model beside it is there."""
    kind, _, number = device.partition(":")
    return kind == plan.device and number in ("", "0")


def bytes_of_weights(plan: Plan, model_size: ModelSize) -> int:
    """Bytes of the weights when the model is ready, on all devices of a process."""
    return model_size.weights - model_size.quantization_savings.get(plan.quantize, 0)


def adapter_bytes(plan: Plan, model_size: ModelSize, weights: int) -> int:
    """Bytes of the adapters where `weights` bytes of the model are: its devices share both alike."""
    num_bytes = plan.request.num_adapter_values * itemsize(model_size.dtype)
    return num_bytes * weights // max(1, bytes_of_weights(plan, model_size))


def loading_memory(plan: Plan, model_size: ModelSize, weights: int) -> tuple[int, int]:
    """RAM while loading, beyond the final weights: private bytes, and file pages that the kernel may drop.

    Private: copies in another dtype, as far as they exceed the final weights; the buffer in which a sample or
    the largest weight is packed; the reference logits by which runners are judged. File pages: the excess
    either while weights are read and copied, or while they are packed into prefaulted memory.
    """
    is_unquantized = plan.quantize == "none"
    quantization_savings = 0 if is_unquantized else model_size.quantization_savings.get(plan.quantize, 0)
    share = (weights + quantization_savings) / max(1, model_size.weights)
    pack_buffer = int(model_size.largest_weight * weights / max(1, weights + quantization_savings))
    parity_bytes = PARITY_TOKENS * model_size.vocab_size * FLOAT_BYTES
    pack_sample = model_size.pack_sample if is_unquantized else 0
    converted_bytes = int(model_size.load_copy_bytes * share)
    prefaulted = min(plan.overhead.prefaulted, weights)
    own_bytes = max(0, converted_bytes - weights) + max(pack_buffer, pack_sample) + parity_bytes
    file_bytes = int(
        (plan.repository.weight_bytes if model_size.is_converted else model_size.load_copy_bytes) * share
    )
    while_reading = converted_bytes + file_bytes + prefaulted
    while_packing = weights + quantization_savings + parity_bytes + max(pack_buffer, pack_sample + prefaulted)
    return own_bytes, max(0, max(while_reading, while_packing) - weights - own_bytes)
