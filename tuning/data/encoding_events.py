"""What the user must know about the encoding of a dataset: collected row by row, told once as sentences."""

from collections import defaultdict
from collections.abc import Iterator

from inference.errors import short
from inference.finding import format_count

MAX_LISTED = 5  # lines or columns in a sentence
ONLY_LAST = (
    "the chat template writes earlier answers differently from the answer that it prompts for, as templates "
    "that drop thoughts do: only the last answer is trained"
)
UNLIKE_PROMPT = (
    "the answer does not follow the chat template's prompt for it, as with templates whose prompt opens a "
    "thought: it is trained without the end of that prompt"
)
LOST_REASONING = "the chat template does not write the reasoning of the answer: it is not trained"
TEMPLATE_START = "the chat template itself writes {} in front of the answer: these tokens are not trained"
ADDED_END = "the chat template ends the last answer with no token of its own: {} is added and trained"
UNTRAINED_END = "the chat template's generation block leaves out the end of the turn: it is not trained"
EMPTY_ANSWER = "an answer is empty: only the end of its turn is trained"
SAME_ANSWERS = "the two answers are the same: such a pair teaches no preference"
NO_END = "the tokenizer has no end token: the end of the text is not trained"


class EncodingEvents:
    """The lines of the rows that each sentence is about, and columns that nothing reads."""

    def __init__(self) -> None:
        self._lines: dict[str, list[int]] = defaultdict(list)
        self._num_rows: dict[str, int] = defaultdict(int)
        self.unread_columns: dict[str, None] = {}

    def add(self, sentence: str, line: int) -> None:
        self._num_rows[sentence] += 1
        if len(self._lines[sentence]) < MAX_LISTED:
            self._lines[sentence].append(line)

    def sentences(self) -> Iterator[str]:
        for sentence, lines in self._lines.items():
            num_rows = self._num_rows[sentence]
            yield f"In {format_count(num_rows, 'row')} ({list_lines(lines, num_rows)}) {sentence}."
        if self.unread_columns:
            names = list(self.unread_columns)
            listed = ", ".join(short(name, 40) for name in names[:MAX_LISTED])
            yield f"Columns that are not used: {listed}{' and others' if len(names) > MAX_LISTED else ''}."


def list_lines(lines: list[int], num_rows: int) -> str:
    """Such as "line 3" or "lines 3, 8 and others"."""
    others = " and others" if num_rows > len(lines) else ""
    return f"{'line' if num_rows == 1 else 'lines'} {', '.join(map(str, lines))}{others}"
