"""How large a model is."""

from checks.measure.measure import Measure, itemsize, measure, stored_dtype
from checks.measure.skeleton import skeleton

__all__ = ["Measure", "itemsize", "measure", "skeleton", "stored_dtype"]
