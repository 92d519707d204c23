"""Estimates of the memory that a model needs."""

from checks.memory.model_size import ModelSize, itemsize, measure_model, stored_dtype
from inference.model.load.meta_model import try_build_on_meta

__all__ = ["ModelSize", "itemsize", "measure_model", "stored_dtype", "try_build_on_meta"]
