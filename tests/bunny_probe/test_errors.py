"""The error tree: one root, an exit code each, drawn as it is."""

from __future__ import annotations

import inspect

import pytest

from bunny_probe import errors


def _classes() -> dict[str, type[errors.BunnyError]]:
    return {
        name: item
        for name, item in vars(errors).items()
        if inspect.isclass(item) and issubclass(item, errors.BunnyError)
    }


def test_every_error_is_drawn_and_public() -> None:
    """The tree at the top of the module names each class once, and `__all__` exports it."""
    drawn = errors.__doc__ or ""
    for name in _classes():
        assert name in drawn, name
        assert name in errors.__all__


def test_exit_codes_are_those_of_the_command_line() -> None:
    """Codes 1 to 4 mean what the README says."""
    assert errors.GateRefused.exit_code == 1
    assert errors.SuiteError("x").exit_code == 2
    assert errors.Unauthorised.exit_code == 3
    assert errors.BudgetSpent.exit_code == 4


def test_suite_error_names_file_and_key() -> None:
    """A reader of the message knows where to look."""
    told = str(errors.SuiteError("must be 0 to 1", file="a.toml", key="probe[2].depths"))
    assert told == "a.toml: probe[2].depths: must be 0 to 1"


@pytest.mark.parametrize(("given", "near"), [("lenght", "length"), ("postion", "position")])
def test_unknown_choice_offers_the_nearest_and_all(given: str, near: str) -> None:
    """A typo is answered with the likely word and every choice."""
    told = errors.unknown_choice("family", given, ["position", "length"])
    assert f"Did you mean '{near}'?" in told
    assert "Choices: length, position." in told
