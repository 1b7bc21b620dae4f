"""Draw molecules, coloured by the contributions of their atoms: red raises the score."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from smpgnn.inference.explain_tables import Molecule

_RED, _BLUE = (0.90, 0.22, 0.18), (0.16, 0.42, 0.86)
_WIDTH, _HEIGHT = 420, 340
#: Size of a molecule on a page, and opacity of its strongest atom.
_INLINE, _FULL = (300, 220), 0.85
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


def inline_svg(molecule: Any, values: Sequence[float], label: str) -> str:
    """A molecule as an SVG for a page that defines the colour --text, in light or dark.

    Without `values` (the contributions of its atoms) it is not coloured.
    """
    from rdkit import rdBase
    from rdkit.Chem.Draw import rdMolDraw2D

    size = _INLINE
    drawer = rdMolDraw2D.MolDraw2DSVG(*size, *size, True)  # text stays text
    options: Any = drawer.drawOptions()
    options.clearBackground = False
    options.useBWAtomPalette()
    strongest = max(map(abs, values), default=0.0) or 1.0
    colours = {
        atom: (*(_RED if value > 0 else _BLUE), _FULL * abs(value) / strongest)
        for atom, value in enumerate(values)
    }
    with rdBase.BlockLogs():
        drawer.DrawMolecule(
            molecule,
            highlightAtoms=list(colours),
            highlightBonds=[],
            highlightAtomColors=colours,
        )
    drawer.FinishDrawing()
    _, _, content = drawer.GetDrawingText().partition("<!-- END OF HEADER -->")
    content = re.sub(r" class='[^']*'", "", content).replace("#000000", "var(--text)")
    content = re.sub(r";(fill-rule|stroke-(linecap|linejoin|opacity)):[^;']*", "", content)
    content = re.sub(r">\s+<", "><", content).strip()
    shown = label.replace("&", "&amp;").replace("<", "&lt;").replace('"', "&quot;")
    view = f"0 0 {size[0]} {size[1]}"
    return f'<svg role="img" aria-label="{shown}" viewBox="{view}">{content}'


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
