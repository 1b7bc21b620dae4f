"""A unique Kekulé form of each molecule: the double bonds of its aromatic rings.

RDKit's own choice depends on its version (it changed in 2026.3) and, before that, on the order of
the atoms. We use the rule of the ZINC benchmark's graphs: traverse each aromatic system
breadth-first from the atom of lowest index; an atom that still needs a double bond gets one to its
first neighbour that needs one, too; backtrack if no neighbour is left.
"""

from __future__ import annotations

from typing import Any

from smpgnn.data.molecules import bonds_of

_MAX_STEPS = 100_000


def kekule_orders(Chem: Any, molecule: Any) -> list[int]:
    """The order of each bond: aromatic bonds as 1 or 2 by the rule, others unchanged.

    Other bonds than single, double and triple (such as dative) are 0. The molecule is not changed.
    """
    plain = Chem.Mol(molecule)
    Chem.Kekulize(plain, clearAromaticFlags=True)
    known = {Chem.BondType.SINGLE: 1, Chem.BondType.DOUBLE: 2, Chem.BondType.TRIPLE: 3}
    orders = [known.get(bond.GetBondType(), 0) for bond in bonds_of(plain)]
    neighbors: dict[int, list[int]] = {}
    number: dict[tuple[int, int], int] = {}
    needs: set[int] = set()  # the same atoms have double bonds in every form
    for k, bond in enumerate(bonds_of(molecule)):
        if bond.GetBondType() == Chem.BondType.AROMATIC:
            a, b = bond.GetBeginAtomIdx(), bond.GetEndAtomIdx()
            neighbors.setdefault(a, []).append(b)
            neighbors.setdefault(b, []).append(a)
            number[a, b] = number[b, a] = k
            if orders[k] == 2:
                needs |= {a, b}
    partner = _match([a for a in _walk(neighbors) if a in needs], neighbors)
    if partner is not None:
        for k in number.values():
            orders[k] = 1
        for a, b in partner.items():
            orders[number[a, b]] = 2
    return orders


def _walk(neighbors: dict[int, list[int]]) -> list[int]:
    """All atoms, system by system, breadth-first from the lowest index of each."""
    order: list[int] = []
    seen: set[int] = set()
    for start in sorted(neighbors):
        if start in seen:
            continue
        seen.add(start)
        head = len(order)
        order.append(start)
        while head < len(order):
            fresh = [b for b in neighbors[order[head]] if b not in seen]
            seen.update(fresh)
            order += fresh
            head += 1
    return order


def _match(order: list[int], neighbors: dict[int, list[int]]) -> dict[int, int] | None:
    """A partner for each atom of `order`, by backtracking; None if the search fails."""
    position = {atom: k for k, atom in enumerate(order)}
    partner: dict[int, int] = {}
    trail: list[tuple[int, list[int]]] = []  # choices made and their alternatives
    k = 0
    options: list[int] | None = None
    for _ in range(_MAX_STEPS):
        if k == len(order):
            return partner
        atom = order[k]
        if options is None:
            if atom in partner:
                k += 1
                continue
            options = [b for b in neighbors[atom] if position.get(b, -1) > k and b not in partner]
        if options:
            partner[atom], partner[options[0]] = options[0], atom
            trail.append((k, options[1:]))
            k, options = k + 1, None
        elif trail:
            k, options = trail.pop()
            del partner[partner.pop(order[k])]
        else:
            return None
    return None
