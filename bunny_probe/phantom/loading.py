"""Behaviours from a file: TOML or JSON, one model at the top or several in a list `model`.

[[model]]
name = "forgetful"
recall = "0.95 * exp(-L / 40000)"
wrong_anchor = { lengths = [1024, 131072], values = [0.0, 0.3] }

[model.latency]
base = 0.2
gap = 0.02

[[model.overrides]]
when = { task = "negation" }
curves = { recall = 0.4 }
"""

from __future__ import annotations

import json
import tomllib
from collections.abc import Mapping
from dataclasses import fields
from pathlib import Path
from types import UnionType
from typing import Any, get_args, get_type_hints

from bunny_probe.errors import UsageError, unknown_choice
from bunny_probe.phantom.behaviour import CURVES, Behaviour, Latency, Override, Price
from bunny_probe.phantom.curves import Table

__all__ = ["behaviours_from", "load_behaviours"]


def load_behaviours(path: str | Path) -> tuple[Behaviour, ...]:
    """The models of a file. Raises UsageError that names the file and the key."""
    source = Path(path)
    try:
        text = source.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{source} cannot be read: {error}") from None
    try:
        data = json.loads(text) if source.suffix == ".json" else tomllib.loads(text)
    except ValueError as error:  # of both parsers
        raise UsageError(f"{source}: {error}") from None
    except RecursionError:
        raise UsageError(f"{source} is nested too deeply") from None
    return behaviours_from(data, source=str(source))


def behaviours_from(data: Any, *, source: str = "behaviour") -> tuple[Behaviour, ...]:
    """The models in parsed data: an object, a list of objects, or {"model": [objects]}."""
    if isinstance(data, Mapping) and isinstance(data.get("model"), list):
        extra = sorted(set(data) - {"model"})
        if extra:
            raise UsageError(f"{source}: {extra[0]} stands beside [[model]]; move it into a model")
        data = data["model"]
        where = [f"{source}: model[{i}]" for i in range(len(data))]
    elif isinstance(data, list):
        where = [f"{source}: [{i}]" for i in range(len(data))]
    else:
        data, where = [data], [source]
    if not data:
        raise UsageError(f"{source}: no model is described")
    return tuple(_behaviour(item, place) for item, place in zip(data, where, strict=True))


def _behaviour(data: Any, where: str) -> Behaviour:
    values = _known(Behaviour, data, where)
    for name in CURVES:
        if name in values:
            values[name] = _curve(values[name], f"{where}: {name}")
    for name, kind in (("latency", Latency), ("price", Price)):
        if name in values:
            values[name] = _build(kind, _known(kind, values[name], f"{where}: {name}"), where)
    if "overrides" in values:
        values["overrides"] = tuple(
            _override(item, f"{where}: overrides[{i}]")
            for i, item in enumerate(_listed(values["overrides"], f"{where}: overrides"))
        )
    for name in ("refuse_fields", "each_prompt"):
        if name in values:
            items = _listed(values[name], f"{where}: {name}")
            if not all(isinstance(item, str) for item in items):
                raise UsageError(f"{where}: {name} must be a list of strings")
            values[name] = tuple(items)
    behaviour = _build(Behaviour, values, where)
    assert isinstance(behaviour, Behaviour)
    return behaviour


def _known(kind: type[Any], data: Any, where: str) -> dict[str, Any]:
    """The values of an object, each with a name that `kind` has and of a fitting type."""
    if not isinstance(data, Mapping):
        raise UsageError(f"{where} must be a table, not {type(data).__name__}")
    hints = get_type_hints(kind)
    for name, value in data.items():
        if name not in hints:
            raise UsageError(f"{where}: {unknown_choice('key', name, [f.name for f in fields(kind)])}")
        if value is not None and name not in CURVES:
            _check_type(value, hints[name], f"{where}: {name}")
    return {name: value for name, value in data.items() if value is not None}


def _check_type(value: Any, hint: Any, where: str) -> None:
    parts = get_args(hint) if isinstance(hint, UnionType) else (hint,)
    simple = {kind for kind in parts if kind in (int, float, str, bool)}
    if not simple:
        return
    good = type(value) in simple or (float in simple and type(value) is int)
    if not good:
        names = {int: "a whole number", float: "a number", str: "a string", bool: "true or false"}
        raise UsageError(f"{where} must be {' or '.join(names[kind] for kind in simple)}, not {value!r}")


def _build(kind: type[Any], values: dict[str, Any], where: str) -> Any:
    try:
        return kind(**values)
    except UsageError as error:
        raise UsageError(f"{where}: {error}") from None
    except (TypeError, AttributeError, ValueError) as error:
        raise UsageError(f"{where}: a value has the wrong type ({error})") from None


def _override(data: Any, where: str) -> Override:
    values = _known(Override, data, where)
    when, curves = values.get("when", {}), values.get("curves", {})
    if not isinstance(when, Mapping) or not isinstance(curves, Mapping) or not curves:
        raise UsageError(f"{where} needs a table `when` and a table `curves`")
    return Override(
        {str(name): str(value) for name, value in when.items()},
        {str(name): _curve(value, f"{where}: {name}") for name, value in curves.items()},
    )


def _curve(value: Any, where: str) -> Any:
    if isinstance(value, bool) or not isinstance(value, int | float | str | Mapping):
        raise UsageError(f"{where} must be a number, an expression or a table, not {value!r}")
    if not isinstance(value, Mapping):
        return value
    known = _known(Table, value, where)
    for name in ("lengths", "values"):
        if name not in known:
            raise UsageError(f"{where}: a table needs {name}")
    frozen = {name: _tuples(item, f"{where}: {name}") for name, item in known.items()}
    return _build(Table, frozen, where)


def _tuples(value: Any, where: str) -> Any:
    items = []
    for item in _listed(value, where):
        if isinstance(item, list | tuple):
            items.append(_tuples(item, where))
        elif isinstance(item, bool) or not isinstance(item, int | float):
            raise UsageError(f"{where} must hold numbers, not {item!r}")
        else:
            items.append(float(item))
    return tuple(items)


def _listed(value: Any, where: str) -> list[Any]:
    if not isinstance(value, list | tuple):
        raise UsageError(f"{where} must be a list, not {type(value).__name__}")
    return list(value)
