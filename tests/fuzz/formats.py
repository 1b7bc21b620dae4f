"""All formats by name."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from fuzz.cases import Maker
from fuzz.configs import yaml_case
from fuzz.graphs import edges_case, graphml_case, json_case
from fuzz.runs import runs_maker
from fuzz.sdf import sdf_case
from fuzz.tables import csv_case, parquet_case, smiles_case
from fuzz.words import words_case

#: The case maker of each format, given the folder of the trained models.
FORMATS: dict[str, Callable[[Path], Maker]] = {
    "csv": lambda models: csv_case,
    "parquet": lambda models: parquet_case,
    "smiles": lambda models: smiles_case,
    "sdf": lambda models: sdf_case,
    "yaml": lambda models: yaml_case,
    "json": lambda models: json_case,
    "graphml": lambda models: graphml_case,
    "edges": lambda models: edges_case,
    "runs": runs_maker,
    "words": lambda models: words_case,
}
