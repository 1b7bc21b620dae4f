"""Molecules with what their atoms add in colour: red raises the score, blue lowers it."""

from __future__ import annotations

from collections.abc import Sequence

from smpgnn.inference.explain_tables import Explanation, Molecule

_RED, _BLUE = (0.90, 0.22, 0.18), (0.16, 0.42, 0.86)
_WIDTH, _HEIGHT = 420, 340
#: Atoms of the largest molecule that is drawn: RDKit takes minutes to lay out some thousands.
MAX_ATOMS = 1_000


def molecules_svg(molecules: Sequence[Molecule], score: int, name: str) -> str:
    """An SVG file of explained molecules side by side.

    Full colour is the strongest contribution in each of them. Of molecules with more than
    `MAX_ATOMS` atoms there is a '*' and the legend.
    """
    from rdkit import Chem, rdBase
    from rdkit.Chem.Draw import rdMolDraw2D

    shown = [
        entry.molecule if len(entry.explanation.nodes) <= MAX_ATOMS else Chem.MolFromSmiles("*")
        for entry in molecules
        if entry.explanation is not None
    ]
    known = [entry.explanation for entry in molecules if entry.explanation is not None]
    atoms = [
        [values[score] for values in one.nodes] if len(one.nodes) <= MAX_ATOMS else []
        for one in known
    ]
    width = _WIDTH * len(known)
    drawer = rdMolDraw2D.MolDraw2DSVG(width, _HEIGHT, _WIDTH, _HEIGHT)
    with rdBase.BlockLogs():
        drawer.DrawMolecules(
            shown,
            highlightAtoms=[list(range(len(values))) for values in atoms],
            highlightBonds=[[] for _ in atoms],
            highlightAtomColors=[dict(enumerate(_colours(values))) for values in atoms],
            legends=[_legend(one, score, name) for one in known],
        )
    drawer.FinishDrawing()
    text: str = drawer.GetDrawingText()
    return text


def _legend(explanation: Explanation, score: int, name: str) -> str:
    strongest = max(abs(values[score]) for values in explanation.nodes)
    size = len(explanation.nodes)
    text = f"{name} {explanation.score[score]:.3g}, an atom at most {strongest:.2g}"
    return text if size <= MAX_ATOMS else f"{text} ({size:,} atoms, too many to draw)"


def _colours(values: Sequence[float]) -> list[tuple[float, float, float]]:
    """From white to full red or blue."""
    strongest = max(map(abs, values), default=0.0) or 1.0
    colours = []
    for value in values:
        full, share = _RED if value > 0 else _BLUE, abs(value) / strongest
        red, green, blue = (1 - share * (1 - part) for part in full)
        colours.append((red, green, blue))
    return colours
