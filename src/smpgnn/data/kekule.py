"""One Kekulé form for every molecule: where the double bonds of aromatic rings are drawn.

RDKit's own choice depends on its version (it changed in 2026.3) and, before that, on the order of
the atoms. The rule here is the one that the ZINC benchmark's graphs follow: within each aromatic
system, walk breadth-first from the atom of lowest number over aromatic bonds; an atom that still
needs a double bond takes the first neighbour that needs one too; go back if that leads nowhere.
"""

from __future__ import annotations

from typing import Any

from smpgnn.data.molecules import bonds_of

_MAX_STEPS = 100_000


def kekule_orders(Chem: Any, molecule: Any) -> list[int]:
    """The order of every bond, aromatic ones as 1 or 2 by the rule, others as they are.

    Bonds other than single, double and triple (dative, for one) are 0. The molecule is left as is.
    """
    plain = Chem.Mol(molecule)
    Chem.Kekulize(plain, clearAromaticFlags=True)
    known = {Chem.BondType.SINGLE: 1, Chem.BondType.DOUBLE: 2, Chem.BondType.TRIPLE: 3}
    orders = [known.get(bond.GetBondType(), 0) for bond in bonds_of(plain)]
    neighbors: dict[int, list[int]] = {}
    number: dict[tuple[int, int], int] = {}
    needs: set[int] = set()  # which atoms take a double bond is the same in every form
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
    """All atoms, system by system, breadth-first from the lowest number of each."""
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
    """A partner for every atom of `order`, first choices first; None if there is none in reach."""
    position = {atom: k for k, atom in enumerate(order)}
    partner: dict[int, int] = {}
    trail: list[tuple[int, list[int]]] = []  # where a choice was made, and what else there was
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
