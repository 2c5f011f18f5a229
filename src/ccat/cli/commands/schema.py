"""`ccat schema`: print the JSON Schema of what `ccat evaluate --format json` prints."""

import json
from argparse import Namespace

from ccat.report import json_schema


def run(options: Namespace) -> None:
    """Print it."""
    print(json.dumps(json_schema(), indent=1))
