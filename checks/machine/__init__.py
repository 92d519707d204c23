"""What this machine has, and what it has shown to take."""

from checks.machine.machine import Gpu, Machine, look, taken

__all__ = ["Gpu", "Machine", "look", "taken"]
