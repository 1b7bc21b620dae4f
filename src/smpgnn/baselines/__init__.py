"""The baselines of the paper, in the architecture of SMP."""

from smpgnn.baselines.gin import GIN

__all__ = ["GIN"]
