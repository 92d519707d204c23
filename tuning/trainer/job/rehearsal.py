"""Rehearsal: text that a model wrote before its training, which it goes on predicting as it did then.

New rows overwrite what a model knows. Its own text shows that without the data that it was trained on
(self-synthesized rehearsal: Huang et al. 2024, arXiv:2403.01244), and its probabilities show more than its
words do (learning without forgetting: Li and Hoiem 2016, arXiv:1606.09282). Knows texts and probabilities; no
rows of a file.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from random import Random

import numpy as np
import torch
from safetensors.torch import load_file

from tuning.trainer.datum import Datum
from tuning.trainer.durable_files import write_tensors
from tuning.trainer.job.pass_cost import PassCost
from tuning.trainer.model.base_model import BaseModel
from tuning.trainer.written_text import WrittenText, common_ending, write_answers, write_prompts
from tuning.types import Hyperparameters, JobSpec

REHEARSAL_FILE = "rehearsal.safetensors"
MAX_TEXTS = 192  # in turn, each of them again and again: as many suffice as a few dozen facts displace
WRITES = (
    "The model writes {count} texts, which the job rehearses so that the model keeps what it knows; "
    "rehearsal 0 turns that off, for a style that every answer shall have"
)
WRITTEN = "Rehearsal: {done} of {count} {what} written"
NUM_CANDIDATES = 32  # tokens at each place whose probabilities are remembered, the most probable ones


@dataclass(frozen=True, slots=True)
class Rehearsal:
    """What is trained beside the rows of each step.

    data      texts; the weights of their candidates are the probabilities that the model gave them
    per_step  how many of these a step takes
    """

    data: Sequence[Datum]
    per_step: int

    def of_step(self, step: int) -> list[Datum]:
        """The data of a step. Their loss is the mean over tokens, as that of rows is."""
        first = step * self.per_step
        data = [self.data[index % len(self.data)] for index in range(first, first + self.per_step)]
        total = sum(float(np.sum(datum.inputs["weights"])) for datum in data)
        return [
            replace(datum, inputs={"weights": np.asarray(datum.inputs["weights"]) / total}) for datum in data
        ]

    def mean_cost(self, pass_cost: PassCost) -> float:
        """The cost of a step's texts, on average over all texts."""
        num_steps = math.ceil(len(self.data) / self.per_step)
        return sum(pass_cost.of(self.of_step(step), 1) for step in range(num_steps)) / num_steps


def prepare_rehearsal(
    folder: Path,
    base: BaseModel,
    prompts: Sequence[Sequence[int]],
    spec: JobSpec,
    num_steps: int,
    report: Callable[[str], None] = lambda sentence: None,
) -> Rehearsal | None:
    """The rehearsal of the job in `folder`, as it was saved there, or written now by the model as it is.

    prompts  of its rows, token ids
    report   is told how far the writing is
    Returns None if the job does not rehearse.
    """
    per_step = count_per_step(spec.hyperparameters)
    if not per_step:
        return None
    data = read_rehearsal(folder)
    if data is None:
        data = write_rehearsal(base, prompts, min(MAX_TEXTS, per_step * num_steps), spec.seed, report)
        save_rehearsal(folder, data)
    return Rehearsal(data, per_step) if data else None


def count_per_step(hyperparameters: Hyperparameters) -> int:
    """The texts of a step; 0: the job does not rehearse."""
    if not hyperparameters.rehearsal:
        return 0
    return max(1, round(hyperparameters.rehearsal * hyperparameters.rows_per_step))


@torch.no_grad()
def write_rehearsal(
    base: BaseModel,
    prompts: Sequence[Sequence[int]],
    num_texts: int,
    seed: int,
    report: Callable[[str], None] = lambda sentence: None,
) -> list[Datum]:
    """Let the model as it is now write texts, each from the beginning of one of the prompts (token ids)."""

    def report_written(what: str) -> Callable[[int], None]:
        return lambda done: report(WRITTEN.format(done=done, count=num_texts, what=what))

    report(WRITES.format(count=num_texts))
    random = Random(f"{seed} rehearsal")
    torch.manual_seed(seed)
    ending = common_ending(prompts)
    written = write_prompts(base, prompts, ending, num_texts, random, report_written("questions"))
    texts = write_answers(base, written, ending, report_written("answers"))
    return [with_candidates(base, text) for text in texts]


def with_candidates(base: BaseModel, text: WrittenText) -> Datum:
    """The text with the tokens that the model finds most probable at each place that it wrote."""
    ids = torch.tensor([text.token_ids[:-1]], device=base.device)
    output = base.hidden_states(ids, None)
    written = slice(text.prefix_length - 1, None)
    probabilities = base.logits(output, output.last_hidden_state[0, written]).float().softmax(-1)
    top = probabilities.topk(min(NUM_CANDIDATES, base.vocab_size))
    target_ids = np.zeros((ids.shape[1], top.indices.shape[1]), np.int64)
    weights = np.zeros(target_ids.shape, np.float32)
    target_ids[written], weights[written] = top.indices.cpu().numpy(), top.values.cpu().numpy()
    return Datum(text.token_ids[:-1], target_ids, {"weights": weights})


def save_rehearsal(folder: Path, data: Sequence[Datum]) -> None:
    """Keep the texts of the job in `folder`: once the adapter has changed, they cannot be written again."""
    tensors = {}
    for index, datum in enumerate(data):
        tensors[f"{index}.token_ids"] = torch.tensor(datum.token_ids)
        tensors[f"{index}.target_ids"] = torch.as_tensor(datum.target_ids)
        tensors[f"{index}.weights"] = torch.as_tensor(datum.inputs["weights"])
    new = folder / f"{REHEARSAL_FILE}.new"
    write_tensors(new, tensors)
    new.replace(folder / REHEARSAL_FILE)


def read_rehearsal(folder: Path) -> list[Datum] | None:
    """What save_rehearsal has saved; None if it has not."""
    path = folder / REHEARSAL_FILE
    if not path.exists():
        return None
    tensors = {name: tensor.numpy() for name, tensor in load_file(path).items()}
    return [
        Datum(
            tensors[f"{index}.token_ids"],
            tensors[f"{index}.target_ids"],
            {"weights": tensors[f"{index}.weights"]},
        )
        for index in range(len(tensors) // 3)
    ]
