"""A clock for tests: it stands in for the module `time`, and advances only when it is set."""


class SteppedClock:
    now = 0.0

    def monotonic(self) -> float:
        return self.now

    perf_counter = thread_time = time = monotonic
