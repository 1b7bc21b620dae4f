"""Start a run from a trained model: take over its settings, and refuse models that do not fit."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from pathlib import Path
from typing import Any

from smpgnn.config.options import MoleculesOptions, TrainOptions
from smpgnn.config.settings import flat, renamed
from smpgnn.data.descriptors import SET, Descriptors
from smpgnn.data.tables import listing
from smpgnn.errors import InputError
from smpgnn.training.member_plan import MEMBERS, has_members
from smpgnn.training.prepare import Prepared
from smpgnn.training.saved import SavedModel, load_model
from smpgnn.training.tasks.base import parts_of
from smpgnn.training.transfer import common_parts

#: Settings of the network that no weight and no prediction depends on.
_FREE = ("dropout", "checkpoint")


def with_start(options: TrainOptions, given: Collection[str]) -> TrainOptions:
    """The settings with those of the model to start from, if there is one.

    These are the network, descriptors, bond features and standardisation. A different value among
    those `given` by the user is refused.
    """
    if not isinstance(options, MoleculesOptions) or not options.from_run:
        return options
    saved = _load(options.from_run)
    descriptors = Descriptors.of_source(saved.source)
    network = flat(saved.spec.options)
    known: dict[str, Any] = {
        **{name: value for name, value in network.items() if name not in _FREE},
        "descriptors": ((SET,) if descriptors.rdkit else ()) + descriptors.columns,
        "edge_features": saved.spec.edge_channels > 0,
        "standardize": bool(saved.source.get("standardize", False)),
    }
    now = flat(options)
    for name in renamed(dict.fromkeys(given), now):
        if name in known and now[name] != known[name]:
            raise InputError(
                f"--{name.replace('_', '-')} {_shown(now[name])}: the model in --from "
                f"{options.from_run} has {_shown(known[name])}: leave it out."
            )
    return options.changed(**known)


def started(prepared: Prepared, options: TrainOptions) -> Prepared:
    """The run with the trained model that it starts from, if its settings name one.

    A model that does not fit the run is refused.
    """
    if not isinstance(options, MoleculesOptions):
        return prepared
    name = options.from_run
    if options.freeze and not name:
        raise InputError("--freeze: keeps the weights of a trained model: name it with --from.")
    if not name:
        return prepared
    start = _load(name)
    old, new = start.spec, prepared.spec
    kind = start.source["kind"]
    if kind != prepared.source["kind"]:
        what = "graphs" if kind == "graphs" else "molecules with the atom types of ZINC"
        raise InputError(f"--from {name}: was trained on {what}: name a run of 'molecules'.")
    before, now = (Descriptors.of_source(s.source) for s in (start, prepared))
    if before != now:
        known = [*([SET] if before.rdkit else []), *before.columns]
        raise InputError(
            f"--from {name}: takes "
            + (f"the descriptors {listing(known)}" if known else "no descriptors")
            + ": give the same with --descriptors."
        )
    for what in ("in_channels", "edge_channels", "node_outputs"):
        if getattr(old, what) != getattr(new, what):
            raise InputError(
                f"--from {name}: its network has {what}={getattr(old, what)}, but this run needs "
                f"{getattr(new, what)}: name a model with the same features."
            )
    values = flat(new.options)
    for setting, value in flat(old.options).items():
        if setting not in _FREE and values[setting] != value:
            raise InputError(
                f"--from {name}: its network has {setting}={_shown(value)}, but this run "
                f"{_shown(values[setting])}: give the same settings."
            )
    spec = replace(new, usual_nodes=old.usual_nodes, max_nodes=max(old.max_nodes, new.max_nodes))
    same = {own.name for own, _ in common_parts(prepared.task, start.task)}
    fresh = [part.name for part in parts_of(prepared.task) if part.name not in same]
    note = f"Starts from {name}" + (f", with new outputs for {listing(fresh)}." if fresh else ".")
    return replace(prepared, spec=spec, start=start, notes=(*prepared.notes, note))


def _load(name: str) -> SavedModel:
    if has_members(name):
        folder = Path(name) / MEMBERS
        raise InputError(f"--from {name}: has members: name one of the folders in {folder}.")
    return load_model(name)


def _shown(value: Any) -> str:
    return " ".join(map(str, value)) or "none" if isinstance(value, tuple) else str(value)
