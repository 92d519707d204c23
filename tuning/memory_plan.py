"""The memory plan of a training job, for those who decide whether it may start."""

from tuning.trainer.memory_plan import TrainingPlan, check_memory, largest_pass, plan_memory

__all__ = ["TrainingPlan", "check_memory", "largest_pass", "plan_memory"]
