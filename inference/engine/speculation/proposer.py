"""The interface of what proposes draft tokens, and the choice of one.

ngram_proposer.py finds drafts in the text itself; draft_model_proposer.py has a smaller model write them.
"""

from typing import Protocol

from inference.engine.kv.manager import KVCacheManager
from inference.engine.scheduling.scheduler import SchedulerOutput
from inference.engine.speculation.draft_model import DraftModel
from inference.engine.speculation.draft_model_proposer import DraftModelProposer
from inference.engine.speculation.ngram_proposer import NgramProposer


class Proposer(Protocol):
    def propose(self, scheduler_output: SchedulerOutput, step_budget: int) -> int:
        """Set the drafts of each scheduled sequence, and return their number.

        The step may compute `step_budget` tokens in all.
        """
        ...

    def is_worthwhile(self, scheduler_output: SchedulerOutput, step_budget: int) -> bool:
        """Whether drafts behind the pending tokens of these sequences are likely to save time. Sets none."""
        ...

    def discard(self) -> None:
        """Forget all sequences: none is left."""
        ...


def create_proposer(
    kv_cache_manager: KVCacheManager, speculate: int, draft_model: DraftModel | None
) -> Proposer | None:
    """What proposes drafts; None if there are none.

    speculate    most drafts of a sequence in a step
    draft_model  writes the drafts; None: they are found in the text
    """
    if not speculate:
        return None
    if draft_model is None:
        return NgramProposer(kv_cache_manager, speculate)
    return DraftModelProposer(draft_model, kv_cache_manager, speculate)
