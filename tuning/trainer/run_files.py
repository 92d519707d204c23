"""The files of the trainer's process, and of a run beside its adapter's: what its training needs to go on."""

BASE_FILE = "base.json"  # of the process: the base model
OPTIMIZER_FILE = "optimizer.safetensors"
GRADIENTS_FILE = "gradients.safetensors"
