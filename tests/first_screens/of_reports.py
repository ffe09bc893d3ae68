"""Programs after public reports, and snapshots of real devices."""

from __future__ import annotations

from typing import Final

from tests.first_screens.screen import NO_LEAK_NAMED, NOTHING_FOUND, Screen, Way

_SILENT: Final = (NO_LEAK_NAMED, r"out of memory: ", r"host memory: ", r"overwritten: ")
"""The first lines that a healthy or mended program must not get."""
_BY_DAY: Final = ("snapshot_eval_keeps_logits", "snapshot_forward")
_HOST_VARIES: Final = "how much resident memory grows depends on the machine"


def _pair(
    name: str, words: tuple[str, ...], truth: str, first: tuple[str, ...], *, npu: bool = False, memory: str = "",
    never: tuple[str, ...] = (), wrong: str = "", wrong_repaired: str = "", varies: str = "", repair: str = "fixed",
) -> tuple[Screen, Screen]:  # fmt: skip
    """A program as it was reported, and as it was mended."""
    return (
        Screen(
            f"reports/{name}", words, truth, first, never=never, npu=npu, memory=memory, wrong=wrong, varies=varies
        ),
        Screen(
            f"reports/{name}_mended", (*words, repair), "mended: nothing is to be found", npu=npu, memory=memory,
            first=(r"^nothing found|not judged",), never=_SILENT, wrong=wrong_repaired, varies=varies,
        ),
    )  # fmt: skip


REPORTS: Final = (
    *_pair(
        "trainer_eval", ("trainer_eval.py",),
        "the logits of all evaluation batches are kept on the device: one line holds 95 %",
        (r"^out of memory on npu:0", r"trainer\.py|trainer_eval\.py|logits"), npu=True, memory="768M",
        never=(r"expandable_segments",),
    ),
    Screen(
        "reports/oom_retry", ("oom_retry.py",),
        "the retry is inside `except`: the frames of the traceback hold the failed attempt, about 375 MiB",
        (r"^out of memory on npu:0", r"oom_retry\.py", r"traceback|exception|failed attempt"), npu=True, memory="768M",
    ),
    Screen(
        "reports/oom_retry_mended", ("oom_retry.py", "fixed"),
        "mended: a batch of 12,000 after those of 2,048 is refused once, and half of it fits behind the clause",
        (r"^out of memory on npu:0.*batch jump",), never=(r"by an exception",), npu=True, memory="768M",
    ),
    Screen(
        "reports/oom_eval_with_grad", ("oom_eval_with_grad.py",), "30 batches of evaluation without no_grad hold their graphs",
        (r"^out of memory on npu:0", r"^(?!.*fragmentation)", r"oom_eval_with_grad\.py\(9\)"), npu=True, memory="1G",
    ),
    *(
        Screen(
            f"reports/oom_leak_unmarked_{how}", ("oom_leak_unmarked.py", how),
            "the state's graph grows by each step: a leak; said so with and without marks",
            (r"^out of memory on npu:0(?: in step \d+)?: leak", r"oom_leak_unmarked\.py\(6\)"), npu=True, memory="1G",
        )
        for how in ("mark", "tool")
    ),
    Screen(
        "reports/oom_second_model", ("oom_second_model.py",), "weights of a second model, 384 MiB, which joins in step 4",
        (r"^out of memory on npu:0", r"384 MiB|model|parameters|weights", r"oom_second_model\.py"), never=(r"checkpoint",),
        npu=True, memory="1G",
    ),
    *_pair(
        "trials", ("trials.py",),
        "past trials hang in reference cycles until the garbage collector runs: 64 MiB a trial, 514 MiB at the peak",
        (r"leak: ", r"trials\.py", r"reference cycle|cycle"), varies="when the collector begins by itself",
    ),
    *_pair(
        "accelerate_folds", ("accelerate_folds.py",), "`accelerator._models` and `_optimizers` keep every fold",
        (r"leak: ", r"held by .*_(?:models|optimizers)"), never=(r"no variable leads to it",),
    ),
    *(
        Screen(
            f"reports/kept_models{'_npu' if npu else ''}", ("kept_models.py",),
            "`keeper.models` of main keeps each of eight models",
            (r"leak: ", r"kept_models\.py", r"held by .*keeper\.models"), npu=npu,
        )
        for npu in (False, True)
    ),
    Screen(
        "reports/holder_numpy", ("holder_numpy.py",), "the list `kept` holds arrays whose base holds the storage: 16 KiB a step",
        (r"leak: ", r"held by .*kept"), never=(r"no variable leads to it",), by_day=True,
    ),
    *(
        Screen(
            f"reports/leak_backward_{device}", ("leak_backward_npu.py", device),
            "a gradient of the input is kept in each step: the line of backward(), 8, and the list `kept`",
            (r"leak: ", r"leak_backward_npu\.py\(8\)", r"held by .*kept"), npu=device == "npu",
        )
        for device in ("cpu", "npu")
    ),
    *(
        Screen(
            f"reports/leak_outside_steps_{order}", ("leak_outside_steps.py", order, "40"),
            "16 KiB leak per request, 40 of them, outside of the five steps",
            (r"leak: 6\d\d KiB", r"leak_outside_steps\.py\(8\)", r"held by .*kept"),
        )
        for order in ("train_serve", "serve_train", "train_serve_train")
    ),
    Screen(
        "reports/growth_of_batch", ("growth_of_batch.py",), "healthy: the batch grows, nothing is kept",
        (r"^nothing found",), never=_SILENT,
    ),
    *_pair(
        "pinned", ("pinned.py",), "pinned memory is rounded to powers of two: 256 MiB for 137 asked", (r"pinned",), npu=True,
        varies=_HOST_VARIES,
    ),
    *_pair(
        "conv_shapes", ("conv_shapes.py",), "oneDNN keeps a primitive for each shape: 366 MiB of resident memory",
        (r"^host memory: ",), varies=_HOST_VARIES,
    ),
    *(
        Screen(
            f"reports/{name}", (f"{name}.py",), truth, (r"host memory",), never=(NOTHING_FOUND, NO_LEAK_NAMED),
            varies=_HOST_VARIES,
        )
        for name, truth in (
            ("host_list", "100 MB of Python texts are kept in a list, outside of tensors"),
            ("host_malloc", "100 MB are lost by malloc in native code"),
            ("host_numpy", "100 MB of NumPy arrays are kept in a list"),
        )
    ),
    Screen(
        "reports/host_kept_heap", ("host_kept_heap.py",),
        "tensors are freed, and the heap keeps some of it: alone, resident memory grows by 20 MiB, 12 of them tensors that are "
        "alive. (100 MB were reported.)",
        (NOTHING_FOUND,), never=(NO_LEAK_NAMED,), varies=_HOST_VARIES,
    ),
    *(
        Screen(
            f"reports/owner_program_{device}_{how}", ("owner_program.py", device, how),
            "healthy: a replay buffer of 4 MiB and an average of weights belong to the program",
            (r"^nothing found|not judged",), says=(r"program|replay",), never=_SILENT, npu=device == "npu",
            options=("--analysis=decompose",),
        )
        for device, how in (("cpu", "none"), ("cpu", "call"), ("npu", "none"), ("npu", "call"), ("npu", "mstx"))
    ),
    Screen(
        "reports/owner_two_backwards", ("owner_two_backwards.py",),
        "healthy: what autograd saves for two backward passes, 8 MiB, is an activation", (r"^nothing found|not judged",),
        says=(r"[Aa]ctivation",), never=_SILENT, options=("--analysis=decompose",),
    ),
    *(
        Screen(
            f"reports/watch_arena_{device}_{case}_{size}", ("watch_arena.py", device, case, str(size)),
            "an operator that was given a part of an arena writes 32 bytes beyond it",
            (r"^overwritten: ", r"my::fill_out|fill_out"), npu=device == "npu", options=("--watch=auto",),
        )
        for device in ("cpu", "npu")
        for case, size in (("o_256", 1024), ("nest_256", 1024), ("o_4096", 65536))
    ),
    Screen(
        "reports/watch_strided_out", ("watch_strided_out.py",),
        "an operator that declares out=b[::2] writes b[1::2] as well, which is watched as `odd`",
        (r"^overwritten: ", r"odd", r"scale_out"),
    ),
    Screen(
        "reports/watch_compiled", ("watch_compiled.py",), "healthy: compiled code updates the running statistics of BatchNorm",
        (r"^nothing found|not judged",), never=_SILENT, options=("--watch=auto",),
    ),
    Screen(
        "reports/complex_bits", ("complex_bits.py",), "healthy; its results are bit for bit those without the tool",
        (r"^nothing found|not judged",), never=_SILENT,
    ),
    *_pair(
        "waiting_queue", ("waiting_queue.py",),
        "requests wait in `Batcher.queue`, 49 MiB of 50 at the peak, growing to the end, then freed as the program ends",
        (r"leak: ", r"waiting_queue\.py\(8\)", r"queue"), repair="ok", varies="the queue is as long as the machine is slow",
    ),
    *_pair(
        "worker_memo", ("worker_memo.py",), "two DataLoader workers keep every sample, 20 MiB each, in `Memo.seen`",
        (r"leak: ", r"worker_memo\.py\(9\)", r"seen"), repair="ok",
    ),
    *(
        Screen(
            f"reports/{name}", (f"{name}.pickle.xz",), truth, first, never=never, way=Way.SNAPSHOT, by_day=name in _BY_DAY,
        )
        for name, truth, first, never in (
            ("graph", "healthy: a captured graph has a private pool", (r"nothing found|not judged|reserved",), (NO_LEAK_NAMED,)),
            ("leak_mlp", "a small network that leaks at snap.py(8)", (r"leak: ",), (r"cause.*unknown",)),
            ("oom_batch", "a batch too large", (r"^out of memory",), (r"unknown",)),
            (
                "snapshot_eval_keeps_logits",
                "86 blocks of 16 MiB, 95 % of what is in use, come from ooms.py(22), the evaluation loop that keeps its logits",
                (r"^out of memory", r"ooms\.py\(22\)"), (r"optimizer state, 24",),
            ),
            (
                "snapshot_long_sequence",
                "attention of 5,600 positions after steps of 512 to 700: scores and softmax, 958 MiB each, at ooms.py(50)",
                (r"^out of memory", r"ooms\.py\(50\)"), (r"nothing says how much",),
            ),
            (
                "snapshot_outside",
                "138.5 GiB were taken by cudaMalloc outside of the pool of 1.0 GiB; 31 MiB free; the device's size is not known",
                (r"^out of memory", r"outside of the pool, at least \d"), (r"unknown",),
            ),
            (
                "snapshot_total_loss",
                "`total = total + loss` keeps the graph of each step: 1.08 GiB of 1.22 at ooms.py(65)",
                (r"^out of memory(?!.*fragmentation)", r"ooms\.py\(65\)"), (),
            ),
            (
                "snapshot_forward",
                "32 layers of one forward pass: what each saves for its backward pass adds up. Nothing leaks",
                (r"forward|activation|backward|nothing found",), (NO_LEAK_NAMED,),
            ),
        )
    ),
)  # fmt: skip
