"""The error that weights on disk raise."""

from ccat.errors import CcatError


class ModelFileError(CcatError):
    """A weights file is missing, damaged or does not fit; the message says which and what to do."""
