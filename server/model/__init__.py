"""Torch modules of the target and the block drafter, their KV pool, and greedy decoding."""
