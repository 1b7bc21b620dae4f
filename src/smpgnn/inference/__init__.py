"""What a trained model is asked: predictions, metrics, explanations."""

#: Integration steps of an explanation.
EXPLAIN_STEPS = 256
