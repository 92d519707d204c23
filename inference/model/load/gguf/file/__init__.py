"""The layout of GGUF files: the header, its checks, and several shards as one file."""
