"""The hardware and the limits of this machine."""

from checks.machine.gpus import Gpu
from checks.machine.machine import Machine, find_port_error, inspect

__all__ = ["Gpu", "Machine", "find_port_error", "inspect"]
