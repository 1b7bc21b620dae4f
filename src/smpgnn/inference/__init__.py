"""Apply trained models: predictions, metrics, explanations."""
