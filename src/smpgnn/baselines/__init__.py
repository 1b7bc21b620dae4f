"""The baselines of the paper, in the same frame."""

from smpgnn.baselines.gin import GIN

__all__ = ["GIN"]
