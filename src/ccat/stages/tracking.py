"""Training as TensorBoard shows it: what the log says of each epoch, as event files."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from ccat.stages.shared import StageError

Track = Callable[[Mapping[str, float]], None]  # an entry of the log


@contextmanager
def events(folder: Path, epoch: int) -> Iterator[Track]:
    """Into a folder, after `epoch` epochs; what an interrupted training wrote of later ones does not count."""
    try:
        import tensorboard  # noqa: F401, PLC0415 (an option; PyTorch's writer needs it)
        from torch.utils.tensorboard import SummaryWriter  # noqa: PLC0415
    except ImportError:
        raise StageError("TensorBoard is not installed: pip install 'ccat-torch[tensorboard]'") from None

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
