"""smpgnn: structural message-passing on PyTorch and PyTorch Geometric."""
