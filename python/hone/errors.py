"""What hone raises: the message says what was found and what was expected, the hint what to do."""


class Error(Exception):
    """A mistake that a person can mend. `message`, `hint` and `exit_code` are what the program prints and exits with."""

    exit_code = 1

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message, hint)
        self.message = message
        self.hint = hint

    def __str__(self) -> str:
        return f"{self.message}\n  hint: {self.hint}" if self.hint else self.message


class UsageError(Error, ValueError):
    """A setting that cannot be."""

    exit_code = 2


class DataError(Error, ValueError):
    """A row or file that cannot be read."""

    exit_code = 3


class CheckpointError(Error):
    """A model, adapter or checkpoint that is damaged or does not fit."""

    exit_code = 4


class OutOfMemoryError(Error, MemoryError):
    """The device has too little memory."""

    exit_code = 5


class NonFiniteError(Error, ArithmeticError):
    """The model computes NaN or infinity."""

    exit_code = 6


class OutOfSpaceError(Error, OSError):
    """A checkpoint could not be written."""

    exit_code = 8


_KINDS = {kind.exit_code: kind for kind in (UsageError, DataError, CheckpointError, OutOfMemoryError, NonFiniteError, OutOfSpaceError)}


def make_error(exit_code: int, message: str, hint: str) -> Error:
    """The exception for one of the program's exit codes; libhone calls this."""
    error = _KINDS.get(exit_code, Error)(message, hint)
    error.exit_code = exit_code
    return error


def require_type(value: object, kind: type | tuple[type, ...], name: str, expected: str) -> None:
    """Raises UsageError unless an argument is of the class it must be."""
    if not isinstance(value, kind):
        raise UsageError(f"{name} is {value!r:.60} ({type(value).__name__})", f"expected {expected}")


def require(holds: bool, name: str, value: object, expected: str) -> None:
    """Raises UsageError unless a setting is what it must be."""
    if not holds:
        raise UsageError(f"{name} is {value!r}", f"expected {expected}")
