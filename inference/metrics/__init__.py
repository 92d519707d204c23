"""What the server did and is doing, for Prometheus: in its own names, and in those of vLLM and TGI.

One door: Metrics. Knows no engine, no HTTP and no dialect.
"""

from inference.metrics.metrics import Metrics
from inference.metrics.span import Span

__all__ = ["Metrics", "Span"]
