"""--trust-pickle: the one way to have ZINC's raw files read from a folder of the user's."""

from __future__ import annotations

import argparse


def add_trust_pickle(parser: argparse.ArgumentParser) -> None:
    """The option, in a group of its own."""
    parser.add_argument_group("data").add_argument(
        "--trust-pickle",
        action="store_true",
        help="read ZINC's raw files, which are pickles and can run any code; needed once",
    )


def import_trusted(arguments: argparse.Namespace, data_dir: str, *, subset: bool = True) -> None:
    """With --trust-pickle: read the pickles now, so that later their packed form is read.

    So the trust is that of one command, and no config file or run folder can carry it.
    """
    if arguments.trust_pickle:
        from smpgnn.data.zinc import zinc_splits

        zinc_splits(data_dir or None, subset=subset, trust_pickle=True)
