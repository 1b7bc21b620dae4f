"""The worst and best predictions of a run, drawn with the contributions of their atoms."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from markupsafe import Markup

from smpgnn.data.molecule_features import molecules_of
from smpgnn.data.tables import listing
from smpgnn.errors import InputError
from smpgnn.inference.draw_molecules import inline_svg
from smpgnn.inference.explain_tables import Molecule, explain_molecules
from smpgnn.inference.predict import Model
from smpgnn.pages.predicted import Predicted
from smpgnn.pages.run_files import RunFiles
from smpgnn.pages.words import short
from smpgnn.training.saved import load_model

#: Molecules of each kind, and integration steps of their explanations.
COUNT, STEPS = 6, 64
#: Larger molecules could not be recognised, and make the page large.
MOST_ATOMS = 150


@dataclass(frozen=True)
class Drawing:
    """A predicted molecule; `svg` is empty if it is too large."""

    row: int
    smiles: str
    svg: Markup
    real: str
    predicted: str
    similarity: str


@dataclass(frozen=True)
class Drawings:
    """The worst and best predictions for a target; `note` says why atoms have no colours."""

    worst: Sequence[Drawing]
    best: Sequence[Drawing]
    note: str = ""


class Explainer:
    """Explains test molecules by the networks of a run that were not trained on them."""

    def __init__(self, run: RunFiles) -> None:
        self.run = run
        self._models: dict[int, Model] = {}
        self._molecules: dict[tuple[int, str], Molecule] = {}

    def explain(self, rows: Iterable[int], smiles: Iterable[str]) -> list[Molecule]:
        """The molecules of some rows with the contributions of their atoms."""
        pairs = list(zip(rows, smiles, strict=True))
        by_fold: dict[int, list[str]] = {}
        for row, text in pairs:
            by_fold.setdefault(self.run.fold.get(row, 0), []).append(text)
        for fold, texts in by_fold.items():
            new = [text for text in dict.fromkeys(texts) if (fold, text) not in self._molecules]
            found, _ = explain_molecules(self._model(fold), new, steps=STEPS)
            self._molecules |= {(fold, t): one for t, one in zip(new, found, strict=True)}
        return [self._molecules[self.run.fold.get(row, 0), text] for row, text in pairs]

    def _model(self, fold: int) -> Model:
        """The networks that never saw a fold, of the first repeat; 0: those of a single split."""
        if fold not in self._models:
            members = [one.member for one in self.run.networks]
            repeat = members[0].repeat if members[0] is not None else 0
            folders = [
                one.folder
                for one in self.run.networks
                if one.member is None or one.member.group == (repeat, fold)
            ]
            model = self._models[fold] = _Together(folders)
            if model.descriptors.columns:
                raise InputError(
                    "The atoms have no colours: this would take the columns "
                    f"{listing(model.descriptors.columns)} of the test rows."
                )
        return self._models[fold]


class _Together(Model):
    """Some networks of a run, whose mean contributions are shown."""

    def __init__(self, folders: Sequence[Path]) -> None:
        saved = [load_model(folder) for folder in folders]
        super().__init__(saved[0], "cpu")
        self._members = [Model(one, "cpu") for one in saved]

    def members(self) -> list[Model]:
        return self._members


def drawings(target: Predicted, explainer: Explainer) -> Drawings | None:
    """The worst and best predictions for a target; None if they are not molecules."""
    if not target.smiles or not len(target.real):
        return None
    order = np.argsort(-np.abs(target.error), kind="stable")
    few = min(COUNT, (len(order) + 1) // 2)
    chosen = np.concatenate([order[:few], order[::-1][: min(few, len(order) - few)]]).tolist()
    smiles = [target.smiles[at] for at in chosen]
    note = ""
    try:
        found = explainer.explain(target.row[chosen].tolist(), smiles)
    except InputError as error:
        note, found = str(error), _plain(smiles)
    shown = [_drawing(target, at, one) for at, one in zip(chosen, found, strict=True)]
    return Drawings(shown[:few], shown[few:], note)


def _plain(smiles: Sequence[str]) -> list[Molecule]:
    pairs = zip(smiles, molecules_of(smiles), strict=True)
    return [Molecule(0, text, molecule, None) for text, molecule in pairs]


def _drawing(target: Predicted, at: int, found: Molecule) -> Drawing:
    row = int(target.row[at])
    svg = Markup()
    if found.molecule is not None and found.molecule.GetNumAtoms() <= MOST_ATOMS:
        values: list[float] = []
        if found.explanation is not None:
            score = target.score
            if target.scores > 1:
                score += int(target.real[at])
            values = [one[score] for one in found.explanation.nodes]
        svg = Markup(inline_svg(found.molecule, values, f"row {row}: {found.smiles}"))
    near = np.nan if target.similarity is None else target.similarity[at]
    similarity = f"{near:.2f}" if np.isfinite(near) else ""
    return Drawing(row, target.smiles[at], svg, *_values(target, at), similarity)


def _values(target: Predicted, at: int) -> tuple[str, str]:
    """Real and predicted value in words."""
    if target.predicted is not None:
        return short(target.real[at]), short(target.predicted[at])
    assert target.shares is not None
    shares, classes = target.shares[at], target.part.classes
    top = int(shares.argmax())
    return classes[int(target.real[at])], f"{classes[top]} ({shares[top]:.0%})"
