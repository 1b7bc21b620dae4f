"""The paper itself: its claims as programs, its tables as trainings, their report."""
