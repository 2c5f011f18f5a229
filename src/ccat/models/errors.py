"""The error that weights on disk raise."""


class ModelFileError(Exception):
    """A weights file is missing, damaged or does not fit; the message says which and what to do."""
