"""What a seat says of a model that it cannot compute."""


class Unfit(Exception):
    """The message says what keeps the seat from computing the model."""
