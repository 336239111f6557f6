"""The error that users see as one sentence instead of a traceback."""


class InputError(ValueError):
    """The user's input cannot be used; the message says which value and what to do."""


class NothingYet(InputError):
    """A run has no evaluation so far; others may be shown without it."""


class RunError(RuntimeError):
    """Something failed while running; the message says what and where."""


class Damaged(RunError):
    """A file of a method folder is not what was written there."""
