"""Lists of words that may come, may not come, or may not come first, as the tokens they are written with.

Each word counts as it stands and behind a space, which most tokenizers write with other tokens.
"""

from api.neodim.bodies import Strings, strings
from api.neodim.texts import Ids, Texts
from inference.errors import BadRequest

MAX_WORDS = 1000
MAX_CHARS = 200  # of each


def runs(words: Strings | None, field: str, texts: Texts) -> tuple[Ids, ...]:
    """The runs of tokens that the words are written with."""
    listed = strings(words)
    if len(listed) > MAX_WORDS:
        raise BadRequest(field, f"may hold at most {MAX_WORDS}", len(listed))
    for word in listed:
        if len(word) > MAX_CHARS:
            raise BadRequest(field, f"may have at most {MAX_CHARS} characters each", word)
    spelled = (texts.encode(space + word, field) for word in listed for space in ("", " "))
    return tuple(dict.fromkeys(run for run in spelled if run))


def tokens(words: Strings | None, field: str, texts: Texts) -> frozenset[int]:
    """All the tokens in those runs, whatever their order."""
    return frozenset(id for run in runs(words, field, texts) for id in run)


def allowed(words: Strings | None, texts: Texts) -> frozenset[int] | None:
    """None: any token. An empty list allows none, which leaves nothing to generate."""
    if words is None:
        return None
    found = tokens(words, "words_whitelist", texts)
    if not found:
        raise BadRequest("words_whitelist", "bans every word: leave it out, or null, to allow all")
    return found
