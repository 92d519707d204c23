"""How long tests wait for what must happen."""

TIMEOUT_S = 60.0  # a busy machine delays what takes a moment
