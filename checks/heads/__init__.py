"""What a model's files of weights say of themselves at their beginning: one door, headed(source, hub)."""

from checks.heads.headed import headed

__all__ = ["headed"]
