"""Write the numbers of the records in results/ into the documents, between their markers.

python docs/fill.py           # rewrite
python docs/fill.py --check   # exit 1 if a document would change
"""

from __future__ import annotations

import fill_benchmarks as benchmarks
import fill_results as results
from blocks import fill_documents, write_document

from smpgnn.pages.charts import svg_file
from smpgnn.paper.report.curves import figures
from smpgnn.paper.report.render import FIGURES, markdown

DOCUMENTS = {
    "README.md": {"headline": results.headline},
    "docs/summary.md": {
        "demo": results.demo,
        "cycles": results.cycles,
        "properties": results.properties,
        "zinc": results.zinc,
        "step": benchmarks.step,
    },
    "docs/speed.md": {
        "compile": benchmarks.compiled,
        "plain": benchmarks.plain,
        "prediction": benchmarks.prediction,
        "step-one-thread": benchmarks.step_one_thread,
        "step-gpu": benchmarks.step_gpu,
        "baselines": benchmarks.baselines,
        "captured": benchmarks.captured,
        "gpu": benchmarks.gpu,
        "epoch": benchmarks.epoch,
        "scale": benchmarks.scale,
        "precision": benchmarks.precision,
        "complexity": benchmarks.complexity,
    },
    "docs/molecules.md": {"small-molecules": benchmarks.small_molecules},
    "docs/models/general.md": {"starts": benchmarks.starts},
    "docs/many_machines.md": {"partitions": benchmarks.partitions},
    "docs/ensembles.md": {"intervals": benchmarks.intervals},
    "docs/training.md": {"few-molecules": benchmarks.few_molecules},
    "docs/concepts/family.md": {"family": benchmarks.family},
    "docs/reproduce.md": {
        "ring-gnn": benchmarks.ring_gnn,
        "zinc-validation": results.zinc_validation,
    },
}


if __name__ == "__main__":
    fill_documents(DOCUMENTS)
    write_document("docs/results.md", markdown(results.REPORT))
    for name, chart in figures(results.REPORT).items():
        # The same numbers look different in another version of matplotlib: compare the numbers.
        write_document(f"docs/{FIGURES}/{name}", svg_file(chart), chart.fingerprint)
