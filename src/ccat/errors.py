"""Errors that end a command with a sentence instead of a traceback."""


class CcatError(Exception):
    """An error whose message is the whole story: a command that meets it prints it and ends."""


class PipelineError(CcatError):
    """A step of the pipeline cannot do what was asked; the message says why and what to do."""


class UntrustedError(CcatError):
    """A stored run names code that is not part of ccat; the message says what would be imported."""
