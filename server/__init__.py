"""draftgate: the startup gate, loader and KV-pool sizing of an LLM inference server."""

__version__ = "0.1.0"
