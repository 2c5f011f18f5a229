"""Training by several processes, as torchrun starts them: each takes its share of every batch.

DistributedDataParallel averages the gradients once per batch. Batch normalisation sees the share of
its own process (on GPUs, as SyncBatchNorm, the whole batch); its running statistics are averaged
after every step, so that every process attacks the same model.
"""

import os
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import TypeVar

import torch
from torch import Generator, Tensor, distributed, nn
from torch.nn.parallel import DistributedDataParallel

from ccat.codec import seed_from
from ccat.errors import PipelineError

Value = TypeVar("Value")
_TIMEOUT = timedelta(minutes=30)  # a process that is silent for longer is taken for lost


@dataclass(frozen=True)
class Ranks:
    """The rank of this process and the number of processes; rank 0 reads and writes the run."""

    rank: int = 0
    count: int = 1

    @property
    def first(self) -> bool:
        """True for rank 0, also where it is the only process."""
        return self.rank == 0

    def share(self, rows: Tensor) -> Tensor:
        """Every `count`-th row, so that each rank also gets its share of the attacked half."""
        return rows[self.rank :: self.count]

    def generator(self, generator: Generator, *place: int) -> Generator:
        """Return the random numbers for this rank's share of a batch.

        Args:
            generator: The generator of the run, which a single process draws from.
            place: Where in training this is, such as seed, epoch and step. With several processes,
                the random numbers depend only on it and on the rank.

        """
        if self.count == 1:
            return generator
        return Generator().manual_seed(seed_from([*place, self.rank]))

    def broadcast(self, value: Value) -> Value:
        """Broadcast `value` from rank 0 to every process."""
        if self.count == 1:
            return value
        box = [value if self.first else None]
        distributed.broadcast_object_list(box, src=0)
        return box[0]  # type: ignore[return-value]

    def mean(self, value: float) -> float:
        """Return the mean of a number over all processes."""
        if self.count == 1:
            return value
        device = "cuda" if distributed.get_backend() == "nccl" else "cpu"
        total = torch.tensor(value, dtype=torch.float64, device=device)
        distributed.all_reduce(total)
        return total.item() / self.count

    def wrap(self, model: nn.Module) -> tuple[nn.Module, nn.Module]:
        """Wrap a model so that its gradients are averaged over all processes.

        Returns:
            The bare module, to be attacked and stored, and the module to call in training. They
            are the same where one process trains alone.

        """
        if self.count == 1:
            return model, model
        if next(model.parameters()).is_cuda:
            model = nn.SyncBatchNorm.convert_sync_batchnorm(model)  # type: ignore[no-untyped-call]
        with warnings.catch_warnings():
            # Newer versions of PyTorch warn about this name, older ones know no other.
            warnings.simplefilter("ignore")
            return model, DistributedDataParallel(model, broadcast_buffers=False)

    def average_statistics(self, model: nn.Module) -> None:
        """Average the running statistics of batch normalisation over all processes."""
        if self.count > 1:
            for buffer in model.buffers():
                if buffer.is_floating_point():
                    distributed.all_reduce(buffer)
                    buffer.div_(self.count)


ALONE = Ranks()


@contextmanager
def init(device: str) -> Iterator[tuple[Ranks, str]]:
    """Join the processes that torchrun started, for as long as the context is open.

    Args:
        device: cpu, cuda or mps, as the user asked for it.

    Yields:
        The rank of this process and its own device (with several GPUs, `cuda:1`); `ALONE` and
        `device` as it is without torchrun.

    Raises:
        PipelineError: If there are more processes than GPUs, or the device is mps.

    """
    count = int(os.environ.get("WORLD_SIZE", "1"))
    if count == 1:
        yield ALONE, device
        return
    if device == "mps":
        raise PipelineError("several processes cannot train on mps: use --device cpu")
    if device == "cuda":
        local, gpus = int(os.environ.get("LOCAL_RANK", "0")), torch.cuda.device_count()
        if local >= gpus:
            raise PipelineError(
                f"torchrun starts more processes here than there are GPUs: use "
                f"--nproc-per-node {gpus}"
            )
        device = f"cuda:{local}"
        torch.cuda.set_device(device)
    backend = "nccl" if device.startswith("cuda") else "gloo"
    distributed.init_process_group(backend, timeout=_TIMEOUT)
    try:
        yield Ranks(distributed.get_rank(), count), device
    finally:
        distributed.destroy_process_group()
