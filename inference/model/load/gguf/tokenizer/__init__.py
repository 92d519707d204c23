"""The tokenizer of a GGUF file, built from its vocabulary."""
