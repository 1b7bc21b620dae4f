"""Read settings from YAML: `key: value` lines whose values are scalars or lists of scalars.

Anchors and aliases (with which a few bytes can expand to gigabytes), tags, nested values and
duplicate keys are refused while parsing. So the size of the file, which is limited, bounds time and
memory.
"""

from __future__ import annotations

import stat
from pathlib import Path
from typing import Any

import yaml

from smpgnn.errors import InputError, quoted

#: Maximum size of a file in bytes.
LARGEST = 1 << 18
#: Maximum number of characters of a number.
_LONGEST_NUMBER = 400


def read_yaml(path: str | Path) -> dict[str, Any]:
    """The keys and values of a file: text, numbers, booleans, None, and lists of these."""
    text = _read_text(Path(path))
    try:
        return _Reader(text, str(path)).content()
    except yaml.YAMLError as error:
        detail = " ".join(str(error).replace('in "<unicode string>", ', "").split())
        raise InputError(f"{path}: is not valid YAML: {detail}.") from error


def _read_text(path: Path) -> str:
    try:
        if not stat.S_ISREG(path.stat().st_mode):  # opening a pipe may block forever
            raise InputError(f"{path}: cannot be read because it is not a regular file.")
        with path.open("rb") as file:
            content = file.read(LARGEST + 1)
        if len(content) > LARGEST:
            raise InputError(
                f"{path}: is larger than {LARGEST >> 10} KiB, too large for a config file."
            )
        return content.decode("utf-8")
    except FileNotFoundError as error:
        raise InputError(f"{path}: no such file.") from error
    except UnicodeDecodeError as error:
        raise InputError(f"{path}: cannot be read because it is not UTF-8 text.") from error
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror or error}.") from error


class _Reader(yaml.SafeLoader):
    """Reads one document, and refuses each node that does not belong there before its content."""

    def __init__(self, text: str, path: str) -> None:
        super().__init__(text)
        self._path, self._key = path, ""

    def content(self) -> dict[str, Any]:
        root = self.get_node() if self.check_node() else None
        if self.check_node():
            another: Any = self.peek_event()  # type: ignore[no-untyped-call]
            raise self._refusal(another, "a config file must have only one document")
        found: dict[str, Any] = {}
        for key, value in root.value if isinstance(root, yaml.MappingNode) else []:
            name = key.value.replace("-", "_")
            if name in found:
                raise self._refusal(key, f"{quoted(key.value)} is given twice")
            entries = isinstance(value, yaml.SequenceNode)
            found[name] = [self._scalar(v) for v in value.value] if entries else self._scalar(value)
        return found

    def compose_node(self, parent: Any, index: Any) -> Any:
        """Compose the next node: the root, a key (index None), a value, or an entry of a list."""
        event: Any = self.peek_event()  # type: ignore[no-untyped-call]
        if getattr(event, "anchor", None) is not None:  # also of an alias
            raise self._refusal(event, "anchors (&) and aliases (*) are not supported")
        if getattr(event, "tag", None) is not None:
            raise self._refusal(event, f"tags ({quoted(event.tag)}) are not supported")
        scalar = isinstance(event, yaml.ScalarEvent)
        if parent is None:
            empty = scalar and event.implicit[0] and event.value in ("", "~", "null")
            if not empty and not isinstance(event, yaml.MappingStartEvent):
                raise InputError(f"{self._path}: must consist of lines 'key: value'.")
        elif isinstance(parent, yaml.MappingNode) and index is None:
            if not scalar:
                raise self._refusal(event, "a key must be a name")
            self._key = event.value
        elif not scalar and not (
            isinstance(parent, yaml.MappingNode) and isinstance(event, yaml.SequenceStartEvent)
        ):
            what = f"{quoted(self._key)} must be a value or a flat list of values"
            raise self._refusal(event, what)
        return super().compose_node(parent, index)

    def _scalar(self, node: Any) -> Any:
        """A text, number, boolean or None by the rules of YAML 1.1; dates remain text."""
        text: str = node.value
        kind = node.tag.rpartition(":")[2]
        if kind in ("int", "float") and len(text) > _LONGEST_NUMBER:
            raise self._refusal(node, f"{quoted(text)} is too long for a number")
        if kind not in ("null", "bool", "int", "float"):
            return text
        try:
            return self.construct_object(node)
        except ValueError:  # such as 0b, or 1__:
            return text

    def _refusal(self, at: Any, what: str) -> InputError:
        return InputError(f"{self._path}, line {at.start_mark.line + 1}: {what}.")
