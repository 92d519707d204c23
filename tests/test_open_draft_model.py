"""A draft model must have the tokens of the model that it drafts for."""

from dataclasses import dataclass

import pytest

from inference.errors import Unavailable
from inference.open_draft_model import check_same_tokens


@dataclass
class Vocabulary:
    ids: dict[str, int]

    def get_vocab(self) -> dict[str, int]:
        return self.ids


IDS = {f"w{id}": id for id in range(200)}


@pytest.mark.parametrize("draft_ids", [IDS, dict(list(IDS.items())[:150]), IDS | {"<end>": 200}])
def test_a_few_other_tokens_are_no_obstacle(draft_ids: dict[str, int]) -> None:
    check_same_tokens(Vocabulary(draft_ids), Vocabulary(IDS))


def test_another_vocabulary_is_refused_with_the_count() -> None:
    shifted = {token: id + 1 for token, id in IDS.items()}
    with pytest.raises(Unavailable, match="DRAFT_MODEL: 200 of its 200 tokens"):
        check_same_tokens(Vocabulary(shifted), Vocabulary(IDS))
