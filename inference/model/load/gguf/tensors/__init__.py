"""Which parameter each tensor of a GGUF file is, and which tensors are none."""
