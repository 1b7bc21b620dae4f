"""Batches of fixed size and the CUDA graphs that replay a step on them."""
