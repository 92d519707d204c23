"""How many replicas a load needs. Ray copies this module to its controller: it imports nothing of Hearth."""

from typing import Any

LOAD = "load"  # the name of the metric that replicas report: 1 is as much as a replica can do at once
TARGET_LOAD = 0.7  # of each replica


def choose_num_replicas(context: Any) -> tuple[float, dict[str, Any]]:
    """An autoscaling policy of Ray Serve: the replicas for the load of all, and no state.

    context: ray.serve.config.AutoscalingContext. Serve applies the limits and the delays.
    """
    loads = (context.aggregated_metrics or {}).get(LOAD) or {}
    if not loads:
        return context.target_num_replicas, {}
    return sum(loads.values()) / TARGET_LOAD, {}
