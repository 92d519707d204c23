"""A panic of a library written in Rust becomes an Exception; nothing else changes."""

import pytest

from inference.process.rust_panic import RustPanic, raises_panics
from tests.process.panicking_tokenizer import make_panicking_tokenizer


def test_a_panic_becomes_an_error_with_the_reason() -> None:
    encode = raises_panics(make_panicking_tokenizer().encode)
    assert encode("aa").ids == [0, 0]
    with pytest.raises(RustPanic, match="retry-limit"):
        encode("a" * 40 + "!")


@pytest.mark.parametrize("error", [ValueError("x"), KeyboardInterrupt(), SystemExit(1), GeneratorExit()])
def test_any_other_error_stays_as_it_is(error: BaseException) -> None:
    def fail() -> None:
        raise error

    with pytest.raises(type(error)) as raised:
        raises_panics(fail)()
    assert raised.value is error
