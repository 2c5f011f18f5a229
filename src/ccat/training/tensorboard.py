"""The training log as event files that TensorBoard shows."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from ccat.errors import PipelineError

Track = Callable[[Mapping[str, float]], None]  # called with the log entry of each epoch


@contextmanager
def events(folder: Path, epoch: int) -> Iterator[Track]:
    """Open event files in `folder` and yield a function that adds the log entry of an epoch.

    Args:
        folder: Where TensorBoard will look for the event files.
        epoch: The epochs that are over. Later ones, which an interrupted training wrote, are
            hidden, because they are trained again.

    Raises:
        PipelineError: If TensorBoard is not installed.

    """
    try:
        import tensorboard  # noqa: F401, PLC0415 (optional; PyTorch's writer needs it)
        from torch.utils.tensorboard import SummaryWriter  # noqa: PLC0415
    except ImportError:
        raise PipelineError(
            "TensorBoard is not installed: pip install 'ccat-torch[tensorboard]'"
        ) from None

    def track(entry: Mapping[str, float]) -> None:
        for name, value in entry.items():
            if name != "epoch":
                writer.add_scalar(name, value, int(entry["epoch"]))
        writer.flush()

    writer = SummaryWriter(str(folder), purge_step=epoch + 1)
    try:
        yield track
    finally:
        writer.close()
