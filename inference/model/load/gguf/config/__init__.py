"""The config of a GGUF file: transformers', with what it leaves out or reads wrongly."""
