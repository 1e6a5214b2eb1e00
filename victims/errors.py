"""The one exception for a user's mistake: a line that says what is wrong and what to do."""


class UserError(Exception):
    """A wrong name, option, file or environment; shown as one line, exit status 2, never as a traceback."""
