"""A chat template for tests that read its text alone."""

from typing import Any

from inference.text.chat_template import ChatTemplate


class TextTemplate(ChatTemplate):
    """A ChatTemplate of which only the rendered text counts."""

    def text(self, *args: Any, **kwargs: Any) -> str:
        return self.render(*args, **kwargs).text
