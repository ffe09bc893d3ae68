"""Programs with torch that make further processes."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time

import torch
from torch import nn


def _loss(device: str, seed: int = 0) -> str:
    """The loss of a small model after three steps, with all its digits."""
    torch.manual_seed(seed)
    model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 1)).to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(3):
        optimizer.zero_grad()
        loss = model(torch.ones(4, 8, device=device)).square().mean()
        loss.backward()
        optimizer.step()
    return repr(loss.item())


def _fork(work: object) -> int:
    """Do something in a child; how it ended."""
    sys.stdout.flush()
    child = os.fork()
    if child == 0:
        status = 9
        try:
            work()  # type: ignore[operator]
            status = 0
        except Exception as error:  # noqa: BLE001 - what torch says of a device that was used before the fork
            print(type(error).__name__, str(error).splitlines()[0])
        finally:
            sys.stdout.flush()
            os._exit(status)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def fork_before_use(device: str) -> None:
    """Children made by os.fork use the device first; then their parent does."""
    statuses = [_fork(lambda seed=seed: print("child", _loss(device, seed))) for seed in range(3)]
    print("parent", _loss(device), statuses)


def fork_after_use(device: str) -> None:
    """os.fork when tensors exist and operators ran already; the child uses what it inherited."""
    kept = torch.arange(10.0, device=device)
    print("parent", _loss(device))

    def work() -> None:
        print("child", (kept * 2).sum().item(), _loss(device, 1))

    print(_fork(work), _fork(work), kept.sum().item())


def nested_forks(device: str) -> None:
    """Three generations of children, and each of them trains."""

    def descend(depth: int) -> None:
        if depth:
            print(depth, _fork(lambda: descend(depth - 1)))
        print(depth, _loss(device, depth))

    descend(4)


def fork_in_threads(device: str) -> None:
    """Threads that fork while others allocate."""
    results: list[int] = []
    is_over = threading.Event()
    torch.ones(100).sum().item()  # torch may not be forked while another thread runs an operator for the first time

    def allocate() -> None:
        while not is_over.is_set():
            torch.ones(100).sum()

    busy = [threading.Thread(target=allocate) for _ in range(2)]
    forking = [
        threading.Thread(target=lambda: results.append(_fork(lambda: torch.ones(100).sum().item()))) for _ in range(6)
    ]
    for thread in busy + forking:
        thread.start()
    for thread in forking:
        thread.join()
    is_over.set()
    for thread in busy:
        thread.join()
    print(results, _loss(device))


def _multiply(tensors: object, results: object, device: str) -> None:
    for tensor in iter(tensors.get, None):  # type: ignore[attr-defined]
        tensor.mul_(2)
        results.put((os.getpid() != os.getppid(), _loss(device, int(tensor[0].item()))))  # type: ignore[attr-defined]


def _with_workers(method: str, device: str) -> None:
    context = torch.multiprocessing.get_context(method)
    tensors, results = context.SimpleQueue(), context.SimpleQueue()
    worker = context.Process(target=_multiply, args=(tensors, results, device))
    worker.start()
    shared = [torch.full((1000,), float(number)).share_memory_() for number in range(3)]
    for tensor in shared:
        tensors.put(tensor)
    answers = [results.get() for _ in shared]
    tensors.put(None)
    worker.join()
    print(answers, [tensor.sum().item() for tensor in shared], worker.exitcode)


def forked_worker(device: str) -> None:
    """torch.multiprocessing: tensors in shared memory, a worker that is forked."""
    for strategy in ("file_descriptor", "file_system"):
        torch.multiprocessing.set_sharing_strategy(strategy)
        _with_workers("fork", device)


def spawned_worker(device: str) -> None:
    """torch.multiprocessing: a worker that is spawned, and imports torch itself."""
    _with_workers("spawn", device)


def worker_of_a_fork_server(device: str) -> None:
    """torch.multiprocessing: a worker of a server that forks."""
    _with_workers("forkserver", device)


class _Squares(torch.utils.data.Dataset[torch.Tensor]):
    def __len__(self) -> int:
        return 20

    def __getitem__(self, index: int) -> torch.Tensor:
        return torch.full((3,), float(index)).square()


def data_loader(device: str) -> None:
    """Workers of a DataLoader that stay, and one that fails."""
    loader = torch.utils.data.DataLoader(_Squares(), batch_size=4, num_workers=2, persistent_workers=True)
    for _ in range(2):
        print([batch.to(device).sum().item() for batch in loader])

    def fail(_: int) -> None:
        raise ValueError("a worker that fails")

    try:
        list(torch.utils.data.DataLoader(_Squares(), num_workers=1, worker_init_fn=fail))
    except ValueError as error:
        print(str(error).splitlines()[-1])


def _train_together(rank: int, port: int, device: str) -> None:
    import torch.distributed as dist

    if device == "npu":
        torch.npu.set_device(rank)
        device = f"npu:{rank}"
    store = dist.TCPStore("127.0.0.1", port, 2, is_master=False)
    dist.init_process_group("hccl" if "npu" in device else "gloo", rank=rank, world_size=2, store=store)
    torch.manual_seed(0)
    model = nn.parallel.DistributedDataParallel(nn.Linear(8, 2).to(device))
    optimizer = torch.optim.AdamW(model.parameters())
    for _ in range(3):
        optimizer.zero_grad()
        loss = model(torch.full((4, 8), float(rank + 1), device=device)).square().mean()
        loss.backward()
        optimizer.step()
    total = torch.stack([parameter.sum() for parameter in model.parameters()]).sum()
    gathered = [torch.zeros_like(loss) for _ in range(2)]
    dist.all_gather(gathered, loss.detach())
    if rank == 0:
        print(total.item(), [one.item() for one in gathered], flush=True)
    # Destroying a group holds the interpreter's lock and waits for threads of the group. Those threads need the lock to
    # forget the tensors of the last collective.
    time.sleep(0.3)
    dist.destroy_process_group()


def data_parallel(device: str) -> None:
    """DistributedDataParallel in two processes: gloo, or HCCL."""
    import torch.distributed as dist

    server = dist.TCPStore("127.0.0.1", 0, 2, is_master=True, wait_for_workers=False)
    context = torch.multiprocessing.start_processes(
        _train_together, args=(server.port, device), nprocs=2, join=False, start_method="fork"
    )
    while not context.join():
        pass
    print([process.exitcode for process in context.processes])


def subprocesses(device: str) -> None:
    """Other programs, started in each of Python's ways."""
    print(_loss(device))
    command = ["sh", "-c", "echo out; echo err >&2; exit 3"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    print(done)
    print(subprocess.run(command, capture_output=True, check=False, close_fds=False, start_new_session=True).returncode)
    print(subprocess.run(command, capture_output=True, check=False, preexec_fn=lambda: os.nice(1)).stdout)
    print(subprocess.run(command, capture_output=True, check=False, env={"PATH": os.environ["PATH"]}).stderr)
    print(os.waitstatus_to_exitcode(os.waitpid(os.posix_spawnp("sh", ["sh", "-c", "exit 4"], os.environ), 0)[1]))
    print(os.waitstatus_to_exitcode(os.system("exit 5")))
    code = "import sys; print(len(sys.argv), sum(range(100)))"
    print(subprocess.check_output([sys.executable, "-c", code], text=True))
    with subprocess.Popen(["cat"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as pipe:
        print(pipe.communicate("through a pipe")[0])
    with subprocess.Popen(["sleep", "60"]) as sleeping:
        sleeping.send_signal(signal.SIGTERM)
    print(sleeping.returncode)


def another_program(device: str) -> None:
    """os.execv in the middle, from another thread."""
    print(_loss(device), flush=True)
    code = "import sys; print('next', sys.argv[1:])"
    thread = threading.Thread(target=lambda: os.execv(sys.executable, [sys.executable, "-c", code, "a b"]))
    thread.start()
    thread.join(30)


def cleared_environment(device: str) -> None:
    """Programs started when every variable was taken away, and when only LD_PRELOAD was changed."""
    print(_loss(device))
    kept = dict(os.environ)
    os.environ.clear()
    print(subprocess.run([sys.executable, "-c", "print(1)"], capture_output=True, check=False).stdout)
    os.environ.update(kept)
    os.environ["LD_PRELOAD"] = ""
    print(subprocess.run([sys.executable, "-c", "print(2)"], capture_output=True, check=False).stdout)
    print(_loss(device))
