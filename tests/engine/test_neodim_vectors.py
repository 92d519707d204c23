"""What the original Neodim Server computed, value by value; where its README says otherwise, that."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch

from inference.engine.edits import edit
from inference.engine.order import warp
from inference.sampling import Sampling, Window
from tests.engine.answers import sequence

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
            sequence(ids[:begin], ids[begin:now], Sampling(window=window_of(vector, ids[:begin])))
            for ids in vector["token_ids"]
        ]
        expected = torch.tensor(step["scores_out"])
        torch.testing.assert_close(edit(torch.tensor(step["scores_in"]), rows), expected, rtol=1e-5, atol=0)


@each("tfs")
def test_a_tail_is_cut_where_neodim_cuts_it(vector: dict[str, Any]) -> None:
    logits = torch.tensor([list(map(float, vector["logits"]))])
    warped = warp(logits, [sequence([0], [], Sampling(tfs=vector["tfs"]))])
    assert warped[0].isfinite().nonzero().flatten().tolist() == vector["kept"]


@pytest.mark.parametrize(
    "vector", VECTORS["warper_chain"] + VECTORS["warper_chain_v013"], ids=lambda vector: vector["name"]
)
def test_warpers_in_order_leave_the_probabilities_neodim_leaves(vector: dict[str, Any]) -> None:
    given = {ours: vector[theirs] for theirs, ours in FIELDS.items() if theirs in vector}
    rows = [sequence([0], [], Sampling(**given, top_a=vector.get("top_a", 0.0), **shape(vector)))]
    probs = warp(edit(torch.tensor([vector["logits"]]), rows), rows).softmax(-1)
    torch.testing.assert_close(probs[0], torch.tensor(vector["probs"]), rtol=1e-5, atol=1e-7)


def window_of(vector: dict[str, Any], used: list[int]) -> Window:
    """The request's window, as the dialect makes it."""
    preamble = vector["preamble_tokens_count"]
    custom = vector["prompt_tokens"]
    tokens = (used[:preamble] if vector["include_preamble"] else []) + (
        used[preamble:] if custom is None else custom
    )
    return Window(
        tuple(tokens),
        vector["penalty"],
        vector["penalty_range"] or len(tokens),
        vector["slope"] or 0.0,
        vector["include_generated"],
        vector["truncate_to_input"],
    )


def shape(vector: dict[str, Any]) -> dict[str, Any]:
    """The penalty, and the order if the request gave one."""
    rep = vector.get("rep")
    if not rep:
        return {"order": tuple(NAMES[name] for name in vector["order"])}
    window = Window(tuple(rep["ids"]), rep["penalty"], rep["penalty_range"], rep["slope"])
    order = tuple(NAMES[name] for name in vector["order"]) if vector["warpers_order"] else ()
    return {"window": window, "order": order}
