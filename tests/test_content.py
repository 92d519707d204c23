"""Contents of messages: texts, or parts that are joined where they meet."""

from itertools import product

import pytest

from inference.content import (
    MessageContent,
    TextPart,
    concatenate,
    content_of,
    content_text,
    join_contents,
    parts_of,
)

AB: MessageContent = (TextPart("a"), TextPart("b"))
CONTENTS: tuple[MessageContent, ...] = ("", "x", AB, (TextPart(""), TextPart("c")), (TextPart("d"),))


def test_content_without_text_is_an_empty_string() -> None:
    assert (content_of([]), content_of([TextPart(""), TextPart("")])) == ("", "")
    assert content_of([TextPart("a"), TextPart("")]) == (TextPart("a"), TextPart(""))


def test_a_string_is_one_part() -> None:
    assert (parts_of("x"), parts_of(AB)) == ((TextPart("x"),), AB)


@pytest.mark.parametrize(("first", "second"), list(product(CONTENTS, CONTENTS)))
def test_the_text_of_two_contents_is_that_of_both(first: MessageContent, second: MessageContent) -> None:
    assert content_text(concatenate(first, second)) == content_text(first) + content_text(second)


@pytest.mark.parametrize("contents", [*product(CONTENTS, CONTENTS), (AB, "x", AB), ()])
def test_joined_contents_have_the_joined_texts(contents: tuple[MessageContent, ...]) -> None:
    texts = [content_text(content) for content in contents]
    assert content_text(join_contents(*contents)) == "\n\n".join(text for text in texts if text)


def test_strings_stay_a_string() -> None:
    assert (concatenate("a", "b"), join_contents("a", "", "b")) == ("ab", "a\n\nb")


def test_parts_stay_parts_and_only_the_texts_that_meet_are_joined() -> None:
    assert concatenate("x", AB) == (TextPart("xa"), TextPart("b"))
    assert join_contents(AB, "x", AB) == (TextPart("a"), TextPart("b\n\nx\n\na"), TextPart("b"))
