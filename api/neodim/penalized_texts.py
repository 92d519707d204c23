"""The texts that the repetition penalty covered, for the report.

They are decoded when the last sequence ends, where the stream is searched for stop strings: a model in
another process is waited for, which the event loop must not do.
"""

from collections.abc import Sequence

from api.neodim.parse import PenaltyExtent, penalty_extent
from api.neodim.prompt import PlainTokenizer
from inference.events import Event, Finished, Token
from inference.sampling import PenaltyWindow

NO_EXTENT = PenaltyExtent(0, ())


class PenalizedTexts:
    """Notes the tokens of all sequences, and so what the penalty covered.

    start, end: the extents at the first and the last step; start_text, end_texts: of each sequence.
    """

    def __init__(self, window: PenaltyWindow | None, tokenizer: PlainTokenizer, num_sequences: int) -> None:
        self._window = window
        self._tokenizer = tokenizer
        self._generated_ids: list[list[int]] = [[] for _ in range(num_sequences)]
        self._num_unfinished = num_sequences
        self.start = self.end = NO_EXTENT
        self.start_text = ""
        self.end_texts = [""] * num_sequences

    def record(self, events: Sequence[Event]) -> None:
        """Note the tokens. Blocks for a moment at the end of the last sequence."""
        for event in events:
            match event:
                case Token():
                    self._generated_ids[event.index].append(event.id)
                case Finished():
                    self._num_unfinished -= 1
                    if not self._num_unfinished:
                        self._decode()

    def _decode(self) -> None:
        """Without tokens nothing was penalized. The last token was sampled before a penalty covered it."""
        if self._window is None or not any(self._generated_ids):
            return
        ends = [penalty_extent(self._window, ids[:-1]) for ids in self._generated_ids]
        self.start = penalty_extent(self._window, [])
        self.end = penalty_extent(self._window, max(self._generated_ids, key=len)[:-1])
        self.start_text = self._tokenizer.decode(self.start.ids)
        self.end_texts = [self._tokenizer.decode(end.ids) for end in ends]
