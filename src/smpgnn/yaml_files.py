"""Read settings from YAML: `key: value` lines whose values are scalars or lists of scalars.

Anchors and aliases (with which a few bytes can expand to gigabytes), tags, nested values and
duplicate keys are refused while parsing. So the size of the file, which is limited, bounds time and
memory.
"""

from __future__ import annotations

import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from smpgnn.errors import InputError, quoted

#: Maximum size of a file in bytes.
LARGEST = 1 << 18
#: Maximum number of characters of a number.
_LONGEST_NUMBER = 400


def read_yaml(path: str | Path) -> dict[str, Any]:
    """The keys and values of a file: text, numbers, booleans, None, and lists of these."""
    import yaml

    text = _read_text(Path(path))
    try:
        return _mapping(yaml.parse(text, Loader=yaml.SafeLoader), str(path))
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


def _mapping(events: Iterator[Any], path: str) -> dict[str, Any]:
    """The content of a file with a single document."""
    import yaml

    found: dict[str, Any] = {}
    documents = 0
    for event in events:
        if isinstance(event, yaml.DocumentStartEvent):
            documents += 1
        elif isinstance(event, yaml.MappingStartEvent):
            _check(event, path)
            for key in iter(lambda: next(events), None):
                if isinstance(key, yaml.MappingEndEvent):
                    break
                if not isinstance(key, yaml.ScalarEvent):
                    raise InputError(f"{_line(key, path)}: a key must be a name.")
                _check(key, path)
                name = key.value.replace("-", "_")
                if name in found:
                    raise InputError(f"{_line(key, path)}: {quoted(key.value)} is given twice.")
                found[name] = _value(key.value, events, path)
        elif isinstance(event, yaml.ScalarEvent) and _scalar(event, path) is None:
            continue  # an empty file
        elif isinstance(event, yaml.NodeEvent):
            _check(event, path)
            raise InputError(f"{path}: must consist of lines 'key: value'.")
        if documents > 1:
            raise InputError(f"{_line(event, path)}: a config file must have only one document.")
    return found


def _value(key: str, events: Iterator[Any], path: str) -> Any:
    import yaml

    event = next(events)
    if not isinstance(event, yaml.SequenceStartEvent):
        return _plain(key, event, path)
    _check(event, path)
    values = []
    for event in iter(lambda: next(events), None):
        if isinstance(event, yaml.SequenceEndEvent):
            break
        values.append(_plain(key, event, path))
    return values


def _plain(key: str, event: Any, path: str) -> Any:
    import yaml

    _check(event, path)
    if not isinstance(event, yaml.ScalarEvent):
        raise InputError(
            f"{_line(event, path)}: {quoted(key)} must be a value or a flat list of values."
        )
    return _scalar(event, path)


def _check(event: Any, path: str) -> None:
    """Refuse anchors, aliases and tags."""
    if getattr(event, "anchor", None) is not None:  # also of an alias
        raise InputError(f"{_line(event, path)}: anchors (&) and aliases (*) are not supported.")
    if getattr(event, "tag", None) is not None:
        raise InputError(f"{_line(event, path)}: tags ({quoted(event.tag)}) are not supported.")


def _scalar(event: Any, path: str) -> Any:
    """A text, number, boolean or None by the rules of YAML 1.1; dates remain text."""
    import yaml

    text: str = event.value
    if not event.implicit[0]:  # in quotes
        return text
    resolver: Any = yaml.resolver.Resolver()
    tag: str = resolver.resolve(yaml.ScalarNode, text, event.implicit)
    kind = tag.rpartition(":")[2]
    if kind == "null":
        return None
    if kind == "bool":
        return text.lower() in ("yes", "true", "on")
    if kind in ("int", "float"):
        if len(text) > _LONGEST_NUMBER:
            raise InputError(f"{_line(event, path)}: {quoted(text)} is too long for a number.")
        node = yaml.ScalarNode(tag, text)
        construct = yaml.constructor.SafeConstructor()
        try:
            return construct.construct_object(node)
        except ValueError:  # such as 0b, or 1__:
            return text
    return text


def _line(event: Any, path: str) -> str:
    return f"{path}, line {event.start_mark.line + 1}"
