"""The one exception for input that cannot be used."""


class InputError(ValueError):
    """Bad input from a person: an argument, a file, a row.

    The message is one sentence that names the file, row or argument and says what to do about it;
    the command line prints it without a traceback and exits with status 2.
    """
