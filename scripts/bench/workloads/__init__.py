"""The workloads by name. To add a workload, write a file with a BenchWorkload and list it here."""

from collections.abc import Mapping

from scripts.bench.workload import BenchWorkload
from scripts.bench.workloads.checkouts import CHECKOUTS
from scripts.bench.workloads.draft_model import DRAFT_MODEL
from scripts.bench.workloads.engines import ENGINES_WORKLOAD
from scripts.bench.workloads.http import HTTP
from scripts.bench.workloads.loads import LOADS
from scripts.bench.workloads.mixed import MIXED
from scripts.bench.workloads.overhead import OVERHEAD
from scripts.bench.workloads.prefix import PREFIX
from scripts.bench.workloads.speculation import SPECULATION

WORKLOADS: Mapping[str, BenchWorkload] = {
    workload.name: workload
    for workload in (
        HTTP,
        PREFIX,
        SPECULATION,
        DRAFT_MODEL,
        LOADS,
        MIXED,
        OVERHEAD,
        ENGINES_WORKLOAD,
        CHECKOUTS,
    )
}
