"""Search for good settings with Optuna: `smpgnn tune`."""
