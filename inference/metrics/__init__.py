"""Prometheus metrics of the server, under its own names and under those of vLLM and TGI.

Knows no engine, no HTTP and no dialect.
"""

from inference.metrics.metrics import Metrics, ModelMetrics
from inference.metrics.request_stats import AnswerStats

__all__ = ["AnswerStats", "Metrics", "ModelMetrics"]
