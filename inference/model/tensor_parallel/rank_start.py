"""The main function of a rank's process. It imports no library itself: the rank's imports are fast."""

import pickle
from multiprocessing.connection import Connection

from inference.process.imports.fast_imports import fast_imports


def run_rank(pickled_function: bytes, pipe: Connection) -> None:
    """Import what a pickled function needs, then call it with the pipe."""
    with fast_imports(is_sharded=True):
        function = pickle.loads(pickled_function)  # from rank 0, which is our own program
    function(pipe)
