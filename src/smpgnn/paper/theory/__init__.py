"""The claims of the paper as programs: `smpgnn paper theory` lists and runs them."""
