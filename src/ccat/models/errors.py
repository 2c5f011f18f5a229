"""What goes wrong with weights on disk."""


class ModelFileError(Exception):
    """A weights file that is missing, damaged, or does not fit. The message says which and what to do."""
