"""Settings: options of a run, presets, and the catalogue of networks."""
