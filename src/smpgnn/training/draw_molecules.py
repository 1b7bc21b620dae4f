"""Molecules with what their atoms add in colour: red raises the score, blue lowers it."""

from __future__ import annotations

from collections.abc import Sequence

from smpgnn.training.explain_tables import Explanation, Molecule

_RED, _BLUE = (0.90, 0.22, 0.18), (0.16, 0.42, 0.86)
_WIDTH, _HEIGHT = 420, 340


def molecules_svg(molecules: Sequence[Molecule], score: int, name: str) -> str:
    """An SVG file of explained molecules side by side.

    Full colour is the strongest contribution in each of them.
    """
    from rdkit.Chem.Draw import rdMolDraw2D

    known = [entry.explanation for entry in molecules if entry.explanation is not None]
    atoms = [[values[score] for values in explanation.nodes] for explanation in known]
    width = _WIDTH * len(known)
    drawer = rdMolDraw2D.MolDraw2DSVG(width, _HEIGHT, _WIDTH, _HEIGHT)
    drawer.DrawMolecules(
        [entry.molecule for entry in molecules if entry.explanation is not None],
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
    return f"{name} {explanation.score[score]:.3g}, an atom at most {strongest:.2g}"


def _colours(values: Sequence[float]) -> list[tuple[float, float, float]]:
    """From white to full red or blue."""
    strongest = max(map(abs, values)) or 1.0
    colours = []
    for value in values:
        full, share = _RED if value > 0 else _BLUE, abs(value) / strongest
        red, green, blue = (1 - share * (1 - part) for part in full)
        colours.append((red, green, blue))
    return colours
