"""Draw molecules, coloured by the contributions of their atoms: red raises the score."""

from __future__ import annotations

from collections.abc import Sequence

from smpgnn.inference.explain_tables import Molecule

_RED, _BLUE = (0.90, 0.22, 0.18), (0.16, 0.42, 0.86)
_WIDTH, _HEIGHT = 420, 340
#: Larger molecules are not drawn: RDKit takes minutes to lay out a few thousand atoms.
MAX_ATOMS = 1_000


def molecules_svg(molecules: Sequence[Molecule], score: int, name: str) -> str:
    """An SVG of explained molecules side by side; full colour is the largest contribution in each.

    Molecules with more than `MAX_ATOMS` atoms are shown as '*'. Without a `name` there is no
    legend.
    """
    from rdkit import Chem, rdBase
    from rdkit.Chem.Draw import rdMolDraw2D

    shown, atoms, legends = [], [], []
    for entry in molecules:
        if entry.explanation is None:
            continue
        values = [contributions[score] for contributions in entry.explanation.nodes]
        legends.append(_legend(name, entry.explanation.score[score], values) if name else "")
        small = len(values) <= MAX_ATOMS
        shown.append(entry.molecule if small else Chem.MolFromSmiles("*"))
        atoms.append(values if small else [])
    drawer = rdMolDraw2D.MolDraw2DSVG(_WIDTH * len(shown), _HEIGHT, _WIDTH, _HEIGHT)
    with rdBase.BlockLogs():
        drawer.DrawMolecules(
            shown,
            highlightAtoms=[list(range(len(values))) for values in atoms],
            highlightBonds=[[] for _ in atoms],
            highlightAtomColors=[dict(enumerate(_colours(values))) for values in atoms],
            legends=legends,
        )
    drawer.FinishDrawing()
    text: str = drawer.GetDrawingText()
    return text


def _legend(name: str, score: float, values: Sequence[float]) -> str:
    text = f"{name} {score:.3g}, an atom at most {max(map(abs, values)):.2g}"
    many = f" ({len(values):,} atoms, too many to draw)"
    return text if len(values) <= MAX_ATOMS else text + many


def _colours(values: Sequence[float]) -> list[tuple[float, float, float]]:
    """From white to full red or blue."""
    strongest = max(map(abs, values), default=0.0) or 1.0
    colours = []
    for value in values:
        full, share = _RED if value > 0 else _BLUE, abs(value) / strongest
        red, green, blue = (1 - share * (1 - part) for part in full)
        colours.append((red, green, blue))
    return colours
