"""What can go wrong, sorted by who has to act.

A message names the place and the fact; the hint names the fix. The exit code belongs to the class, so that the
command line has nothing to decide. Anything that is not a QuarryError is a fault of this program (exit 70).
"""

from __future__ import annotations


class QuarryError(Exception):
    """A foreseen problem: `message` says where and what, `hint` says what to do about it ("" where nothing helps)."""

    exit_code = 70

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint

    def __str__(self) -> str:
        return f"{self.message} {self.hint}".strip()


class DataError(QuarryError):
    """The work is finished and something is wrong with the data: a checksum, a missing revision, unresolved gold."""

    exit_code = 1


class UsageError(QuarryError):
    """The command was called in a way that cannot work."""

    exit_code = 2


class InvalidInputError(QuarryError):
    """An input cannot be read or breaks its format."""

    exit_code = 3


class EnvironmentProblem(QuarryError):
    """The surroundings fail: git, network, model, key, locked database, disk."""

    exit_code = 4
