"""Sampling against values computed by the original Neodim Server, or by its README where the two differ."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch

from inference.engine.sampling.processors import apply_processors
from inference.engine.sampling.warpers import apply_warpers
from inference.sampling import PenaltyWindow, Sampling
from tests.engine.sequences import make_sequence

VECTORS = json.loads((Path(__file__).parent.parent / "vectors" / "neodim_sampling.json").read_text())
NAMES = {
    "RepetitionPenaltyLogitsWarper": "repetition",
    "TemperatureLogitsWarper": "temperature",
    "TopKLogitsWarper": "top_k",
    "TopPLogitsWarper": "top_p",
    "TypicalLogitsWarper": "typical_p",
    "TailFreeLogitsWarper": "tfs",
    "TopALogitsWarper": "top_a",
}
FIELDS = {
    "temperature": "temperature",
    "top_k": "top_k",
    "top_p": "top_p",
    "tfs": "tfs",
    "typical": "typical_p",
}


def each(kind: str) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("vector", VECTORS[kind], ids=lambda vector: vector["name"])


@each("repetition_penalty")
def test_a_window_penalises_as_neodim_does(vector: dict[str, Any]) -> None:
    begin = vector["input_len"]
    for step in vector.get("documented", vector["steps_original"]):
        now = step["input_len_now"]
        rows = [
            make_sequence(
                ids[:begin], ids[begin:now], Sampling(penalty_window=window_of(vector, ids[:begin]))
            )
            for ids in vector["token_ids"]
        ]
        expected = torch.tensor(step["scores_out"])
        torch.testing.assert_close(
            apply_processors(torch.tensor(step["scores_in"]), rows), expected, rtol=1e-5, atol=0
        )


@each("tfs")
def test_tail_free_sampling_keeps_the_tokens_neodim_keeps(vector: dict[str, Any]) -> None:
    logits = torch.tensor([list(map(float, vector["logits"]))])
    warped_logits = apply_warpers(logits, [make_sequence([0], [], Sampling(tfs=vector["tfs"]))])
    assert warped_logits[0].isfinite().nonzero().flatten().tolist() == vector["kept"]


@pytest.mark.parametrize(
    "vector", VECTORS["warper_chain"] + VECTORS["warper_chain_v013"], ids=lambda vector: vector["name"]
)
def test_warpers_in_order_give_the_probabilities_of_neodim(vector: dict[str, Any]) -> None:
    values = {ours: vector[theirs] for theirs, ours in FIELDS.items() if theirs in vector}
    rows = [make_sequence([0], [], Sampling(**values, top_a=vector.get("top_a", 0.0), **shape(vector)))]
    probs = apply_warpers(apply_processors(torch.tensor([vector["logits"]]), rows), rows).softmax(-1)
    torch.testing.assert_close(probs[0], torch.tensor(vector["probs"]), rtol=1e-5, atol=1e-7)


def window_of(vector: dict[str, Any], used: list[int]) -> PenaltyWindow:
    """The request's window, as the dialect builds it."""
    preamble = vector["preamble_tokens_count"]
    custom = vector["prompt_tokens"]
    tokens = (used[:preamble] if vector["include_preamble"] else []) + (
        used[preamble:] if custom is None else custom
    )
    return PenaltyWindow(
        tuple(tokens),
        vector["penalty"],
        vector["penalty_range"] or len(tokens),
        vector["slope"] or 0.0,
        vector["include_generated"],
        vector["truncate_to_input"],
    )


def shape(vector: dict[str, Any]) -> dict[str, Any]:
    """The penalty window, and the warper order if the request gave one, as fields of Sampling."""
    rep = vector.get("rep")
    if not rep:
        return {"warper_order": tuple(NAMES[name] for name in vector["order"])}
    window = PenaltyWindow(tuple(rep["ids"]), rep["penalty"], rep["penalty_range"], rep["slope"])
    order = tuple(NAMES[name] for name in vector["order"]) if vector["warpers_order"] else ()
    return {"penalty_window": window, "warper_order": order}
