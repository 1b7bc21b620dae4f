"""The claims of the paper as programs: `smpgnn theory` lists and runs them (see `registry`)."""
