"""The directory: leases of replicas that run, leave, and are lost."""

from inference.replicas.directory import LEASE_S, LOST_KEPT_S, ReplicaDirectory


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def test_a_replica_is_listed_while_it_renews_its_lease() -> None:
    directory = ReplicaDirectory(clock := Clock())
    directory.renew("a")
    directory.renew("b")
    clock.now = 0.9 * LEASE_S
    directory.renew("a")
    assert directory.list_urls() == (["a", "b"], [])
    clock.now = 1.1 * LEASE_S
    assert directory.list_urls() == (["a"], ["b"])


def test_a_replica_that_leaves_is_not_lost() -> None:
    directory = ReplicaDirectory(Clock())
    directory.renew("a")
    directory.leave("a")
    directory.leave("unknown")
    assert directory.list_urls() == ([], [])


def test_a_lost_replica_may_return_and_is_forgotten_at_last() -> None:
    directory = ReplicaDirectory(clock := Clock())
    directory.renew("a")
    clock.now = LEASE_S
    assert directory.list_urls() == ([], ["a"])
    directory.renew("a")
    assert directory.list_urls() == (["a"], [])
    clock.now = 2 * LEASE_S + LOST_KEPT_S
    assert directory.list_urls() == ([], [])
