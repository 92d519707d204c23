"""The public name of a model."""

from startup.engine import public_name


def test_the_path_of_a_folder_is_not_public() -> None:
    assert (public_name("/srv/models/mine"), public_name("acme/tiny")) == ("mine", "acme/tiny")
