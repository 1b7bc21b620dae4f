"""Settings of all tests: one thread per worker, and the number of examples of hypothesis.

HYPOTHESIS_PROFILE=thorough tries many more examples.
"""

from __future__ import annotations

import os

import torch
from hypothesis import HealthCheck, settings

torch.set_num_threads(1)
# Without a GPU the Triton kernels are run by Triton's interpreter, which reads this on import.
if not torch.cuda.is_available():
    os.environ.setdefault("TRITON_INTERPRET", "1")
# Some virtual machines announce AMX and then fault on it; oneDNN reads this at its first call.
os.environ.setdefault("ONEDNN_MAX_CPU_ISA", "AVX512_CORE_BF16")

settings.register_profile(
    "quick",
    max_examples=8,
    deadline=None,
    derandomize=bool(os.environ.get("CI")),
    suppress_health_check=[HealthCheck.too_slow],
)
settings.register_profile("thorough", settings.get_profile("quick"), max_examples=120)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "quick"))
