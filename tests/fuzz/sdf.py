"""Fuzz SDF and Mol files."""

from __future__ import annotations

import gzip
from functools import cache
from random import Random

from fuzz.cases import Case
from fuzz.corpus import corpus
from fuzz.models import table
from fuzz.mutate import mutated
from fuzz.tables import table_case

_TOKENS = (
    "$$$$", "$$$$\n", "M  END", "M  END\n", "> <size>\n", "> <smiles>\n", "> <>\n", ">  <a> (1)\n",
    "V2000", "V3000", "999", "  0", "  1", "  9", " C ", " Xx ", " * ", " R# ", " L ", " D ",
    "M  CHG  1   1   9\n", "M  RAD  1   1   2\n", "M  ISO  1   1 999\n", "M  RGP  1   1   1\n",
    "M  STY  1   1 SRU\n", "M  ALS   1  2 F C   N   \n", "M  V30 COUNTS 9 9 0 0 0\n", "\n\n",
    ">5", "<",
)  # fmt: skip


def sdf_case(random: Random) -> Case:
    """A damaged SDF or Mol file for the commands that read tables."""
    data = mutated(random, _seeds(), _TOKENS)
    name = random.choice(("t.sdf", "t.sdf", "t.mol"))
    if random.random() < 0.06:
        name, data = "t.sdf.gz", gzip.compress(data, 1, mtime=0)
        if random.random() < 0.5:
            data = mutated(random, [data])
    return table_case(random, name, data)


@cache
def _seeds() -> list[bytes]:
    from rdkit import Chem

    names, *lines = [line.split(",") for line in table().splitlines()]
    records, newer = "", ""
    for line in lines:
        row = dict(zip(names, line, strict=True))
        molecule = Chem.MolFromSmiles(row.pop("smiles"))
        values = "".join(f">  <{name}>\n{value}\n\n" for name, value in row.items())
        records += f"{row['name']}{Chem.MolToMolBlock(molecule)}{values}$$$$\n"
        newer += f"{Chem.MolToV3KMolBlock(molecule)}{values}$$$$\n"
    one = Chem.MolToMolBlock(Chem.MolFromSmiles("C[C@H](N)C(=O)[O-]"))
    files = [records, newer, one, records.replace("\n", "\r\n")]
    return [*(text.encode() for text in files), *corpus("sdf")]
