"""How hard and how long a fetch tries. Defaults are for real lines; tests are in more of a hurry."""

from dataclasses import dataclass, field

from checks.fetch.patience import Patience


@dataclass(frozen=True, slots=True)
class Pace:
    """streams    connections at a time
    piece      bytes asked for at once: small beside a file, large beside the way to the Hub and back
    provers    threads that hash
    timeout_s  without a byte until a connection counts as dead
    repeats    times that a file is fetched anew because its hash is wrong
    quiet_s    since the last write, until what others left counts as left
    """

    streams: int = 8
    piece: int = 32 << 20
    provers: int = 2
    timeout_s: float = 10.0
    repeats: int = 2
    quiet_s: float = 600.0
    patience: Patience = field(default_factory=Patience)


ORDINARY = Pace()
