"""Programs for the front of the tool: options, steps, devices, events, ways to begin and to end."""

from __future__ import annotations

from typing import Final

from tests.first_screens.screen import NO_LEAK_NAMED, NOTHING_FOUND, Screen, Way

_OPTIMIZER: Final = (
    "leaks 64 KiB a step for 8 steps, in `keep`, 6 blocks by the definition; the steps are those of the optimizer"
)
_MODULE: Final = "5 MiB are kept in a list; the program has no steps, and far too few allocations to judge growth"
_SERVER: Final = "16 KiB leak per request, in the dict `cache`"
_BOUNDED: Final = "healthy: a deque with ten places, 128 KiB each"

FRONT: Final = (
    Screen(
        "front/module",
        ("-m", "mymod", "--output", "o", "--steps=5"),
        _MODULE,
        options=("--",),
        first=(r"leaks? .*not judged|growth not judged",),
        never=(NOTHING_FOUND,),
    ),
    Screen(
        "front/module_options",
        ("-m", "mymod", "--output", "o", "--level=kernel", "--analysis=leaks"),
        f"{_MODULE}; its options are its own, which it parses",
        first=(r"leaks? .*not judged|growth not judged",),
        says=(r"passed on to the program",),
        never=(NOTHING_FOUND, "taken as options"),
    ),
    Screen(
        "front/optimizer_steps",
        ("optimizer_steps.py",),
        _OPTIMIZER,
        first=("^leak: 384 KiB in 6 blocks", "optimizer_steps.py", "held by .*keep"),
        by_day=True,
    ),
    Screen(
        "front/optimizer_steps_3",
        ("optimizer_steps.py",),
        f"{_OPTIMIZER}; only step 3 is asked for",
        options=("--steps=3",),
        first=(r"leak: |not judged",),
        never=(NOTHING_FOUND,),
    ),
    Screen(
        "front/optimizer_steps_npu",
        ("optimizer_steps.py",),
        f"{_OPTIMIZER}; the device that was asked for is not there",
        options=("--device=npu",),
        first=(r"npu not observed",),
        never=(NOTHING_FOUND,),
        by_day=True,
    ),
    Screen(
        "front/optimizer_steps_cuda",
        ("optimizer_steps.py",),
        f"{_OPTIMIZER}; blocks of the device that was asked for are not recorded in a run",
        options=("--device=cuda",),
        first=(r"cuda not observed",),
        never=(NOTHING_FOUND,),
    ),
    Screen(
        "front/mixed",
        ("mixed.py",),
        "96 MB of NumPy arrays are kept, 8 MB a step; no tensor leaks",
        first=(r"^host memory: |host memory .* rose by",),
        never=(NO_LEAK_NAMED, NOTHING_FOUND),
    ),
    Screen(
        "front/numpy_alone",
        ("numpy_alone.py",),
        "320 MB of NumPy arrays are kept, without torch",
        first=(r"nothing was recorded|host memory",),
        says=(r"NumPy|host memory",),
        never=(NOTHING_FOUND,),
    ),
    *(
        Screen(
            f"front/bounded_{steps}",
            ("bounded.py", str(steps)),
            f"{_BOUNDED}; {steps} steps",
            first=(r"filling|nothing found|not judged",),
            says=((r"filling, 8 of 10",) if steps == 8 else ()),
            never=(NO_LEAK_NAMED,),
            by_day=steps == 8,
        )
        for steps in (8, 12, 40)
    ),
    Screen(
        "front/server_running",
        ("server.py",),
        _SERVER,
        requests=60,
        way=Way.RUNNING,
        first=(r"^(?:slow )?leak: ", r"server\.py"),
        says=(r"Still running",),
    ),
    Screen(
        "front/server_interrupted",
        ("server.py",),
        f"{_SERVER}; Ctrl-C",
        requests=60,
        way=Way.INTERRUPTED,
        first=(r"^(?:slow )?leak: ", r"server\.py"),
        says=(r"SIGINT|KeyboardInterrupt",),
        never=(r"_exit|replaced by exec",),
    ),
    Screen(
        "front/server_terminated",
        ("server.py",),
        f"{_SERVER}; SIGTERM",
        requests=60,
        way=Way.TERMINATED,
        first=(r"^(?:slow )?leak: ", r"server\.py"),
        says=(r"SIGTERM",),
        never=(r"_exit|replaced by exec",),
    ),
    Screen(
        "front/two_devices",
        ("two_devices.py",),
        "6 blocks of 1 MB leak on npu:0, 6 on npu:1 by the definition; 8 are kept on each",
        npu=True,
        devices=2,
        first=(r"^leak: ", r"npu:0, npu:1", r"held by .*hold"),
    ),
    Screen(
        "front/few",
        ("few.py", "2"),
        "5 MB leak in each of two steps: too few to judge",
        options=("--device=npu",),
        npu=True,
        first=(r"leaks? .*not judged",),
        never=(NOTHING_FOUND,),
    ),
    *(
        Screen(
            f"front/cmpsync{'_synchronised' * len(more)}",
            ("cmpsync.py", *more),
            "60 kernels run; with --level=kernel the screen says where they are, or that they are missing",
            options=("--steps=2", "--level=kernel"),
            npu=True,
            never=(NO_LEAK_NAMED,),
        )
        for more in ((), ("sync",))
    ),
    Screen(
        "front/deferred",
        ("deferred.py",),
        "judged between start() and stop(), which were called",
        options=("--collect-mode=deferred", "--analysis=inefficient"),
        never=(r"never called", NO_LEAK_NAMED),
    ),
    Screen(
        "front/deferred_alone",
        ("deferred.py",),
        "without the launcher: collection between start() and stop(), which were called; the results are in the default folder",
        way=Way.ALONE,
        never=(r"never called", NO_LEAK_NAMED),
    ),
    *(
        Screen(
            f"front/config_output{'_deferred' * len(options)}",
            ("config_output.py",),
            "the program chose the folder `chosen` and databases; nobody chose others",
            options=options,
            names_output=False,
            says=(r"Files in chosen/", r"\.db"),
            never=(r"the command line has chosen", NO_LEAK_NAMED),
        )
        for options in ((), ("--collect-mode=deferred",))
    ),
    Screen(
        "front/late_early",
        ("late_early.py",),
        "one tensor is allocated too early, one freed too late, each 4 MiB of about 12",
        options=("--analysis=inefficient",),
        npu=True,
        first=(r"^inefficient: |inefficient",),
        says=(r"early|late",),
        never=(NO_LEAK_NAMED,),
    ),
    Screen(
        "front/describe_alone",
        ("describe_alone.py",),
        "a label without msmemscope being imported otherwise: it is kept, or a line says what is missing",
        options=("--device=cpu",),
        says=(r"test2|label|describe",),
        never=(NO_LEAK_NAMED,),
    ),
    Screen(
        "front/ineff3",
        ("ineff3.py",),
        "`h` is allocated too early by the definition: 4 MiB",
        options=("--analysis=inefficient",),
        npu=True,
        says=(r"early|ineff3\.py\(6\)",),
        never=(NO_LEAK_NAMED,),
        wrong="it names `big` of line 3, which is freed late and is larger; that `h` is early stands in analyze inefficient alone",
    ),
)
