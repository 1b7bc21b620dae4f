"""Settings as data: options of a run, presets, the catalogue of networks."""
