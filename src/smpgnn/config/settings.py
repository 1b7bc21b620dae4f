"""Options as nested frozen dataclasses, and their flat view.

The options of a training contain those of its network, and these contain those of its layers. Users
and files see one flat list of settings: command-line flags, YAML keys, and the settings in run
folders, saved models and records. Names are unique across the levels, so both views contain the
same. `flat` and `with_values` convert one into the other, and nothing else knows about nesting.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields, replace
from functools import cache
from typing import Any, Self, TypeVar, get_type_hints

from smpgnn.config.setting import Setting
from smpgnn.errors import InputError, nearest, quoted

#: Settings of earlier versions and the value that turned each off: files may still have it.
REMOVED = {"announced_channels": 0, "source_marker": "own", "average": 0.0}
#: Settings of earlier versions that have another name now, and values that changed with it.
#: (Classifications had an objective, too, without a meaning.)
RENAMED: dict[str, tuple[str, dict[Any, Any]]] = {"objective": ("loss", {"mae": "auto"})}


def nested(default: Options, helps: Mapping[str, str] | None = None, **changes: Any) -> Any:
    """A field with options inside: `default` with `changes`, and other help texts for some."""
    return field(default=default.changed(**changes), metadata={"helps": helps or {}})


@dataclass(frozen=True)
class Options:
    """Base of all options: every field is checked when they are made."""

    def __post_init__(self) -> None:
        for setting in _own(type(self)).values():  # type: ignore[arg-type]
            value = setting.checked(getattr(self, setting.name), type(self).__name__)
            object.__setattr__(self, setting.name, value)

    def changed(self, **values: Any) -> Self:
        """These options with other values, by the names of settings at any level."""
        return with_values(self, values, type(self).__name__)


AnyOptions = TypeVar("AnyOptions", bound=Options)


def settings(kind: type[Options]) -> dict[str, Setting]:
    """All settings of some options by name, those of nested options included."""
    return _settings(kind)  # type: ignore[arg-type]


@cache
def _settings(kind: Any) -> dict[str, Setting]:
    found: dict[str, Setting] = {}
    own, defaults = _own(kind), flat(kind())
    for entry in fields(kind):
        inner = own if entry.name in own else settings(type(entry.default))  # type: ignore[arg-type]
        for name in (entry.name,) if inner is own else inner:
            assert name not in found, f"two settings are called {name}"
            help = entry.metadata.get("helps", {}).get(name, inner[name].help)
            found[name] = replace(inner[name], default=defaults[name], level=entry.name, help=help)
    return found


def flat(options: Options) -> dict[str, Any]:
    """The values of all settings by name."""
    found: dict[str, Any] = {}
    for entry in fields(options):
        value = getattr(options, entry.name)
        found.update(flat(value) if isinstance(value, Options) else {entry.name: value})
    return found


def with_values(options: AnyOptions, values: Mapping[str, Any], where: str) -> AnyOptions:
    """Options with other values for some settings; `where` names their origin in errors.

    Settings of earlier versions get their new name, or are ignored if they are turned off.
    """
    known, given = settings(type(options)), {}
    for name, value in renamed(values, known).items():
        if name in REMOVED and name not in known:
            if value != REMOVED[name]:
                raise InputError(
                    f"{where}: {name} is no longer supported: remove it, or set it to "
                    f"{REMOVED[name]!r}, which turns it off."
                )
        else:
            refuse_unknown([name], known, where, "key")
            given[name] = known[name].checked(value, where)
    return _replaced(options, given)


def renamed(values: Mapping[str, Any], known: Iterable[str]) -> dict[str, Any]:
    """The values with those of earlier versions under the names that are `known` now."""
    known, found = set(known), dict(values)
    for old, (new, changes) in RENAMED.items():
        if old in found and old not in known and new in known:
            value = found.pop(old)
            value = changes.get(value, value) if isinstance(value, str) else value
            found.setdefault(new, value)
    return found


def refuse_unknown(names: Iterable[str], known: Iterable[str], where: str, what: str) -> None:
    """Raise `InputError` for a name that is not known, with the nearest one that is."""
    known = list(known)
    for name in names:
        if name not in known:
            near = nearest(name, known)
            hint = f"did you mean '{near}'?" if near else f"known {what}s are {', '.join(known)}."
            raise InputError(f"{where}: unknown {what} {quoted(name)}: {hint}")


def plain(options: Options) -> dict[str, Any]:
    """The flat view with lists for tuples, as JSON and YAML have them."""
    return {
        name: list(value) if isinstance(value, tuple) else value
        for name, value in flat(options).items()
    }


def _replaced(options: AnyOptions, values: Mapping[str, Any]) -> AnyOptions:
    own: dict[str, Any] = {}
    for entry in fields(options):
        value = getattr(options, entry.name)
        if isinstance(value, Options):
            own[entry.name] = _replaced(value, values)
        elif entry.name in values:
            own[entry.name] = values[entry.name]
    return replace(options, **own)


@cache
def _own(kind: Any) -> dict[str, Setting]:
    """The settings that are fields of these options themselves."""
    hints = get_type_hints(kind)
    return {
        entry.name: Setting(
            entry.name, hints[entry.name], entry.default, entry.name, **entry.metadata
        )
        for entry in fields(kind)
        if not isinstance(entry.default, Options)
    }
