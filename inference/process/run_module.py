"""Runs a module as a program, with fast imports: python -m inference.process.run_module MODULE ARGUMENT…

`main` of the module gets the arguments and returns the exit code. For programs that hold whole models, as
children of a process.
"""

import sys
from collections.abc import Sequence
from importlib import import_module

from inference.process.imports.fast_imports import fast_imports
from inference.process.imports.remembered_code import remembered_code
from inference.process.parent_process import obey_parent


def main(name: str, arguments: Sequence[str]) -> int:
    obey_parent()
    with fast_imports(is_sharded=False):
        module = import_module(name)
    remembered_code().save()
    return int(module.main(arguments))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2:]))
