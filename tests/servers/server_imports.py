"""Imports the libraries as main.py does, for the process that tests/servers/forked_main.py forks."""

import gc
import os
from importlib import import_module

from inference.process.imports.deferred_imports import defer_unused_imports

os.environ |= {
    "HF_HUB_OFFLINE": "1",
    "TRANSFORMERS_VERBOSITY": "error",
    "GOMP_SPINCOUNT": "100",
}  # read by the libraries
defer_unused_imports(is_sharded=False)
for name in ("startup.serve_one", "startup.several_models", "api.blueprints"):
    import_module(name)
import_module("tests.brief_benchmarks").shorten()
import_module("tests.patient_checks").extend()
gc.freeze()
