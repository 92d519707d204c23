"""Draft proposers that know the expected outputs: most of their drafts are right."""

import random
from dataclasses import dataclass, field

from inference.engine.kv.manager import KVCacheManager
from inference.engine.scheduling.scheduler import SchedulerOutput
from inference.engine.sequence import Sequence
from inference.engine.speculation.acceptance import can_draft, max_drafts_of
from tests.engine.conftest import expected_ids


@dataclass
class OracleProposer:
    """Drafts tokens of the expected output, followed by wrong ones.

    expected_outputs  outputs without drafts, by (prompt ids, max_tokens); missing ones are computed
    """

    kv_cache_manager: KVCacheManager
    expected_outputs: dict[object, list[int]]
    rng: random.Random = field(default_factory=lambda: random.Random(7))

    def propose(self, scheduler_output: SchedulerOutput, step_budget: int) -> int:
        for sequence, _ in scheduler_output:
            sequence.draft_token_ids = self.draft_ids(sequence) if can_draft(sequence) else []
        return sum(len(sequence.draft_token_ids) for sequence, _ in scheduler_output)

    def is_worthwhile(self, scheduler_output: SchedulerOutput, step_budget: int) -> bool:
        return any(self.draft_ids(sequence) for sequence, _ in scheduler_output if can_draft(sequence))

    def discard(self) -> None:
        """It remembers no sequence."""

    def draft_ids(self, sequence: Sequence) -> list[int]:
        right_ids = self.expected_output(sequence)[sequence.num_output_tokens :][: self.rng.randint(0, 6)]
        wrong_ids = self.rng.choices(range(30), k=self.rng.randint(0, 3))
        return (right_ids + wrong_ids)[: max_drafts_of(sequence, self.kv_cache_manager)]

    def expected_output(self, sequence: Sequence) -> list[int]:
        key = (sequence.request.prompt_token_ids, sequence.request.max_tokens)
        if key not in self.expected_outputs:
            self.expected_outputs[key] = expected_ids(sequence.request, self.kv_cache_manager.context)
        return self.expected_outputs[key]


class SeededOracleProposer(OracleProposer):
    """Looks up the expected outputs by seed."""

    def expected_output(self, sequence: Sequence) -> list[int]:
        return self.expected_outputs[sequence.seed]
