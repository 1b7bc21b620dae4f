"""One training of a BREC table: all pairs, one after the other, resumable after each."""

from __future__ import annotations

import json
import math
import time
from dataclasses import asdict

import torch

from smpgnn.data.brec import GraphPair, brec_pairs
from smpgnn.errors import InputError
from smpgnn.files import write_text
from smpgnn.paper.experiments import brec
from smpgnn.paper.experiments.brec_options import BrecOptions
from smpgnn.paper.experiments.plan import Job
from smpgnn.paper.experiments.records import Curves, Pairs
from smpgnn.paper.experiments.tables import TABLES
from smpgnn.paper.json_data import read_json
from smpgnn.training.memory import peak_mib, reset_peak
from smpgnn.training.memory_probe import count_parameters
from smpgnn.training.provenance import origin
from smpgnn.training.saved import pick_device


def perform_brec(job: Job) -> str:
    """Compare all pairs that the run folder lacks, write the records, and return them as text."""
    options = job.options
    assert isinstance(options, BrecOptions)
    device = pick_device(options.device)
    pairs = brec_pairs(options.data_dir or None)
    chosen = _chosen(pairs, job.request.reduction.samples)
    job.folder.mkdir(parents=True, exist_ok=True)
    path = job.folder / "pairs.json"
    done = read_json(path, list[brec.Comparison], "delete its folder to start again") or []
    found = {comparison.pair: comparison for comparison in done}
    reset_peak(device)
    for number in chosen:
        if number in found:
            continue
        start = time.monotonic()
        try:
            result = brec.compare(pairs[number], number, options, device)
        except torch.OutOfMemoryError as error:
            raise InputError(
                f"pair {number} ({pairs[number].category}) does not fit the memory of {device}: "
                "use a smaller --set batch_size, fewer --jobs, or a larger GPU."
            ) from error
        found[number] = brec.Comparison(number, *result, round(time.monotonic() - start, 3))
        lines = ",\n".join(json.dumps(asdict(comparison)) for comparison in found.values())
        write_text(path, f"[\n{lines}\n]\n")
        print(found[number], flush=True)
    values = {}
    for cell in TABLES[job.table].training(job.training).cells:
        mine = [found[k] for k in chosen if cell.value in ("all", pairs[k].category)]
        told = tuple(result.pair for result in mine if result.told_apart)
        unreliable = tuple(result.pair for result in mine if not result.reliable)
        values[cell.name] = {
            "value": float(len(told) - len(unreliable)),
            "validation": math.nan,
            "epochs": max((result.epochs for result in mine), default=0),
            "wall_time_s": round(sum(result.seconds for result in mine), 2),
            "pairs": Pairs(len(mine), told, unreliable),
        }
    return job.write(
        values,
        parameters=count_parameters(brec.spec_of(options)),
        best_epoch=0,
        peak_memory_mib=round(peak_mib(device), 1),
        curves=Curves((), (), (), ()),
        **origin(device),
    )


def _chosen(pairs: list[GraphPair], samples: int | None) -> list[int]:
    """The indices of the pairs to compare; in a reduced run, `samples` of each category."""
    chosen = []
    for category in dict.fromkeys(pair.category for pair in pairs):
        members = [k for k, pair in enumerate(pairs) if pair.category == category]
        count = len(members) if samples is None else min(samples, len(members))
        chosen += [members[k * len(members) // count] for k in range(count)]
    return chosen
