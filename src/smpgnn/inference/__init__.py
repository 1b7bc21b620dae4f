"""What a trained model is asked: predictions, metrics, explanations."""
