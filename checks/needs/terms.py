"""What a plan takes of a device, term by term, before a byte of its weights is there.

RAM means what the kernel counts as resident of this process, its own memory and the pages of files that it
has mapped, at two times: `loading`, the most until the model is ready, and `serving`, the most up to the end
of the first full batch, in which as many sequences as there are rows come to the whole context. On a GPU it
is what the process takes of its memory. Knows a Plan and what was seen of overheads; judges nothing.
"""

from dataclasses import dataclass

from checks.measure import Measure, itemsize
from checks.plan import Plan

FRAGMENTS = 0.02  # of the weights, for what the GPU's allocator cannot use
NAMED = 510  # bytes of RAM for each token of the vocabulary: its tokenizer's, and its text's in grammars
FLOAT = 4
DRAWING = 2 * FLOAT  # bytes of a logit besides its own: as the sampler has it, and what it is drawn by
HOLES = 1.5  # bytes of the heap for each that torch has at a time: its pieces are of ever other sizes
TRIED = 64  # tokens whose logits are kept while seats are tried


@dataclass(frozen=True, slots=True)
class Terms:
    """Bytes of one device.

    program      the libraries, this code and the tokenizer; on a GPU what CUDA takes besides tensors
    weights      once the model is ready
    kv           what running sequences keep
    activations  of a step of as many tokens as one may have
    logits       of a step of all rows, and what it takes to draw from them
    transient    what loading takes besides program and weights
    mapped       pages of the weights' files beside these, which loading leaves in memory as long as there is
                 room: it needs none of them
    """

    program: int
    weights: int
    kv: int
    activations: int
    logits: int
    transient: int
    mapped: int

    @property
    def step(self) -> int:
        return self.activations + self.logits

    @property
    def fixed(self) -> int:
        """All but what sequences keep."""
        return self.program + self.weights + self.step

    @property
    def serving(self) -> int:
        return self.fixed + self.kv

    @property
    def loading(self) -> int:
        return self.program + self.weights + self.transient + self.mapped

    @property
    def most(self) -> int:
        """What must be there."""
        return max(self.serving, self.loading - self.mapped)


def terms(plan: Plan, measure: Measure, device: str, weights: int, kv: int) -> Terms:
    """Of a device that has so many bytes of the weights, and of what sequences keep."""
    ram, overhead = device == "cpu", plan.overhead
    named = measure.vocab * NAMED
    own, mapped = loading(plan, measure, weights) if ram else (0, 0)
    holes = HOLES if ram and not measure.native else 1
    return Terms(
        program=overhead.ram + named if ram else overhead.cuda,
        weights=weights if ram else int(weights * (1 + FRAGMENTS)),
        kv=kv,
        activations=int(measure.work * plan.batch * overhead.step * holes),
        logits=int(plan.rows * measure.vocab * (itemsize(measure.dtype) + DRAWING) * overhead.step),
        transient=own,
        mapped=mapped,
    )


def loading(plan: Plan, measure: Measure, weights: int) -> tuple[int, int]:
    """Besides the weights as they will be, of this process's own and of files.

    Own: what is copied and takes more than it will; what is packed of a sample, or of the largest weight; and
    the logits by which seats are judged. Of files: what more there is while there is memory for it, either
    while weights are read and copied, or while they are packed, into memory that was made ready for them.
    """
    plain = plan.quantise == "none"
    before = 0 if plain else measure.saves.get(plan.quantise, 0)
    share = (weights + before) / max(1, measure.weights)
    packed, judging = int(measure.largest * weights / max(1, weights + before)), TRIED * measure.vocab * FLOAT
    sample = measure.sample if plain else 0
    copied, ahead = int(measure.copied * share), min(plan.overhead.ahead, weights)
    own = max(0, copied - weights) + max(packed, sample) + judging
    read = int((plan.repository.weights if measure.converts else measure.copied) * share)
    reading = copied + read + ahead
    packing = weights + before + judging + max(packed, sample + ahead)
    return own, max(0, max(reading, packing) - weights - own)
