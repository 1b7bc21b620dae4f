"""--trust-pickle: the only way to read ZINC's raw files from a folder of the user."""

from __future__ import annotations

import argparse


def add_trust_pickle(group: argparse._ArgumentGroup) -> None:
    group.add_argument(
        "--trust-pickle",
        action="store_true",
        help="read ZINC's raw pickle files, which can run any code; needed once",
    )


def import_trusted(arguments: argparse.Namespace, data_dir: str, *, subset: bool = True) -> None:
    """With --trust-pickle: convert the pickles now; later reads use the packed file.

    So only this one command trusts them, and no config file or run folder can store the trust.
    """
    if arguments.trust_pickle:
        from smpgnn.data.zinc import zinc_splits

        zinc_splits(data_dir or None, subset=subset, trust_pickle=True)
