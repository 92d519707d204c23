"""The names of fine-tuned models, as OpenAI forms them: ft:base:organization:suffix:id."""

import hashlib
import re

ORGANIZATION = "local"
OWN_ID = re.compile(r"ftjob-([0-9a-f]{8})[0-9a-f]{16}")
NOT_IN_NAMES = re.compile(r"[^A-Za-z0-9._-]|(?<=\.)\.")


def model_name(base_name: str, suffix: str, job_id: str) -> str:
    """The name of a fine-tuned model, with the last part of the served model's name in it."""
    base = NOT_IN_NAMES.sub("-", base_name.rpartition("/")[2])
    return f"ft:{base}:{ORGANIZATION}:{suffix}:{short_id(job_id)}"


def checkpoint_name(model: str, step: int) -> str:
    return f"{model}:ckpt-step-{step}"


def short_id(job_id: str) -> str:
    """The first characters of an id that this server made; of one that a client chose, those of its hash."""
    own = OWN_ID.fullmatch(job_id)
    return own[1] if own else hashlib.sha256(job_id.encode()).hexdigest()[:8]
