"""Several processes that train one model together, as torchrun starts them: each takes its share of every batch.

Gradients are averaged by DistributedDataParallel, once per batch. Batch normalisation sees the share of its own process (on GPUs, as
SyncBatchNorm, that of all); its running statistics are averaged after every step, so that all processes go on attacking the same model.
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

from ccat.fields import digest
from ccat.stages.shared import StageError

Value = TypeVar("Value")
_TIMEOUT = timedelta(minutes=30)  # a process that says nothing for so long is lost


@dataclass(frozen=True)
class Ranks:
    """Which of how many this process is. The first one, or the only one, reads and writes the run."""

    rank: int = 0
    count: int = 1

    @property
    def first(self) -> bool:
        return self.rank == 0

    def share(self, rows: Tensor) -> Tensor:
        """Every so-manyth: of the part of a batch that is attacked, each process has its share, too."""
        return rows[self.rank :: self.count]

    def generator(self, generator: Generator, *place: int) -> Generator:
        """Random numbers of this process's own rows, which depend on nothing but its rank and the place; alone, the run's own."""
        return generator if self.count == 1 else Generator().manual_seed(int(digest([*place, self.rank])[:15], 16))

    def told(self, value: Value) -> Value:
        """What the first process says, to all."""
        if self.count == 1:
            return value
        box = [value if self.first else None]
        distributed.broadcast_object_list(box, src=0)
        return box[0]  # type: ignore[return-value]

    def mean(self, value: float) -> float:
        """Over the processes."""
        if self.count == 1:
            return value
        total = torch.tensor(value, dtype=torch.float64, device="cuda" if distributed.get_backend() == "nccl" else "cpu")
        distributed.all_reduce(total)
        return total.item() / self.count

    def together(self, model: nn.Module) -> tuple[nn.Module, nn.Module]:
        """The model, and what it is called by in training: its gradients are then those of all processes."""
        if self.count == 1:
            return model, model
        if next(model.parameters()).is_cuda:
            model = nn.SyncBatchNorm.convert_sync_batchnorm(model)  # type: ignore[no-untyped-call]
        with warnings.catch_warnings():  # newer PyTorch would have it called otherwise, older does not know that name
            warnings.simplefilter("ignore")
            return model, DistributedDataParallel(model, broadcast_buffers=False)

    def average_statistics(self, model: nn.Module) -> None:
        """Of batch normalisation."""
        if self.count > 1:
            for buffer in model.buffers():
                if buffer.is_floating_point():
                    distributed.all_reduce(buffer)
                    buffer.div_(self.count)


ALONE = Ranks()


@contextmanager
def joined(device: str) -> Iterator[tuple[Ranks, str]]:
    """The rank of this process among those that torchrun started, and its device; alone where nobody started several."""
    count = int(os.environ.get("WORLD_SIZE", "1"))
    if count == 1:
        yield ALONE, device
        return
    if device == "mps":
        raise StageError("several processes cannot train on mps: use --device cpu")
    if device == "cuda":
        local = int(os.environ.get("LOCAL_RANK", "0"))
        if local >= torch.cuda.device_count():
            raise StageError(f"torchrun starts more processes here than there are GPUs: --nproc-per-node {torch.cuda.device_count()}")
        device = f"cuda:{local}"
        torch.cuda.set_device(device)
    distributed.init_process_group("nccl" if device.startswith("cuda") else "gloo", timeout=_TIMEOUT)
    try:
        yield Ranks(distributed.get_rank(), count), device
    finally:
        distributed.destroy_process_group()
