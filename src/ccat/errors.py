"""Errors that end a command with a sentence instead of a traceback."""


class PipelineError(Exception):
    """A step of the pipeline cannot do what was asked; the message says why and what to do."""


class UntrustedError(Exception):
    """A stored run names code that is not part of ccat; the message says what would be imported."""
