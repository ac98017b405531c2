"""Seconds, as a number or as a `timedelta`."""

from datetime import timedelta

Seconds = float | timedelta


def seconds(given: Seconds) -> float:
    """As a number."""
    if isinstance(given, timedelta):
        return given.total_seconds()
    if not isinstance(given, (int, float)):
        raise TypeError(f"{given!r} is no number of seconds, and no timedelta")
    return given


def in_json(value: object) -> object:
    """What JSON has no word for: whole seconds."""
    if not isinstance(value, timedelta):
        raise TypeError(f"{value!r} has no form in JSON: of many pass a list, of a filter its key")
    whole, rest = divmod(value, timedelta(seconds=1))
    if rest:
        raise ValueError(f"{value!r} is not a whole number of seconds")
    return whole
