"""Self-contained HTML pages: charts, styles, and the page of a run."""
