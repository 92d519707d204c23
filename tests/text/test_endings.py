"""Stop strings that count only where a token ends."""

from inference.text.endings import Endings


def read(tokens: list[str], *strings: str) -> str:
    """What ended the text that these tokens make."""
    watch = Endings(strings).watch()
    return next((hit for token in tokens if (hit := watch.feed(token)[1])), "")


def test_a_string_is_found_across_tokens_and_at_a_tokens_end() -> None:
    assert read(["Hel", "lo", "."], "ello") == "ello"
    assert read(["Hello", "."], "lo") == "lo"


def test_a_string_within_a_token_is_passed_over() -> None:
    assert read(["Hello", "."], "ell") == ""
    assert read(["a.\n", "b"], ".") == ""


def test_of_two_strings_the_longer_ends_the_text() -> None:
    assert read(["ab"], "b", "ab") == "ab"


def test_a_special_token_counts_by_its_name_and_is_no_text() -> None:
    watch = Endings(["<|end|>"]).watch()
    assert watch.feed("a") == ("a", "")
    assert watch.feed("", "<|end|>") == ("", "<|end|>")


def test_without_strings_nothing_ends() -> None:
    assert read(["a", "b"]) == ""


def test_each_answer_is_watched_by_itself() -> None:
    endings = Endings(["ab"])
    one, other = endings.watch(), endings.watch()
    assert one.feed("a") == ("a", "")
    assert other.feed("b") == ("b", "")
    assert one.feed("b") == ("b", "ab")
