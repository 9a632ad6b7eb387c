"""Safetensors headers, the tensors that a config calls for, and the loader."""
