"""The files of a run beside its adapter's: what its training needs to go on."""

OPTIMIZER_FILE = "optimizer.safetensors"
GRADIENTS_FILE = "gradients.safetensors"
