"""Checks that the tokenizer makes no huge texts of short ones, before it is opened."""

from checks.machine import Machine
from checks.memory.plan import Plan
from inference.errors import BadRequest
from inference.finding import Finding
from inference.model.load.tokenizer_limits import check_tokenizer_limits

NEED = "a tokenizer.json with bounds"
FIX = "correct its tokenizer.json, or choose another model"


def check(plan: Plan, machine: Machine) -> Finding | None:
    """None if nothing is wrong, or the file is not here yet: it is checked again when it is opened."""
    folder = plan.repository.metadata_folder
    if folder is None:
        return None
    try:
        check_tokenizer_limits(folder)
    except BadRequest as error:
        return Finding("tokenizer", NEED, error.message, False, FIX)
    return None
