"""Whether the model can be computed as the settings say: device, runner, quantization, processes."""
