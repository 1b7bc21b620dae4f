"""Apply trained models: predictions, metrics, explanations."""

#: Integration steps of an explanation.
EXPLAIN_STEPS = 256
