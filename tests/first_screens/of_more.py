"""More programs of the kinds that the front must know: steps, devices, events, ways to begin and end, bounded containers."""

from __future__ import annotations

from typing import Final

from tests.first_screens.screen import NO_LEAK_NAMED, NOTHING_FOUND, Screen, Way

_LEAK: Final = r"^(?:slow )?leak: "
_SOME_NOT_JUDGED: Final = r"not judged|not observed"
_TRAINED: Final = "256 KiB leak in each of 20 steps, held by `kept`"
_FILLS: Final = (
    ("lru_cache", (), "lru_cache(maxsize=32) of which 20 places are filled", "20 of 32"),
    ("ring_buffer", (), "a ring of 24 places, of which 14 are filled", "14 of 24"),
    ("lru_by_hand_10", ("10",), "an OrderedDict with room for 16 by hand, 10 are filled", ""),
    ("lru_by_hand_40", ("40",), "an OrderedDict with room for 16 by hand, full since step 17 of 40", ""),
    ("bounded_queue", (), "queue.Queue(maxsize=20), of which 12 are filled, then emptied", ""),
    ("replay_buffer", (), "a replay buffer with a capacity of 50, of which 16 are filled", "16 of 50"),
    ("deque_of_pairs", (), "a deque(maxlen=12) of dicts, of which 9 are filled", "9 of 12"),
    ("best_of_heap", (), "a heap of the ten best, full since step 10 of 12", ""),
)


def _program(name: str) -> str:
    return f"{name.removesuffix('_10').removesuffix('_40')}.py"


MORE: Final = (
    Screen(
        "more/no_steps_generator", ("no_steps_generator.py",),
        "no steps; 120 predictions of 64 KiB are kept in a class attribute",
        (_LEAK, r"no_steps_generator\.py\(\d+\)", r"held by .*seen"), by_day=True,
    ),
    Screen(
        "more/no_steps_once", ("no_steps_once.py",), "no steps; three results of one pass are kept: nothing to judge",
        (_SOME_NOT_JUDGED,), never=(NOTHING_FOUND, NO_LEAK_NAMED),
    ),
    Screen(
        "more/no_steps_recursion", ("no_steps_recursion.py",), "no steps; a tree of 600 boards of 16 KiB, never pruned",
        (_LEAK, r"no_steps_recursion\.py\(8\)", r"held by .*root"),
    ),
    Screen(
        "more/no_steps_recursion_ok", ("no_steps_recursion.py", "ok"), "healthy: the boards are dropped",
        (r"nothing found|not judged",), never=(NO_LEAK_NAMED,),
    ),
    Screen(
        "more/two_closures", ("two_closures.py",), "two steps of L-BFGS, in whose closure 1 MiB leaks: 40 or so calls",
        (rf"{_LEAK}|leaks? .*not judged",), never=(NOTHING_FOUND,),
    ),
    Screen(
        "more/two_marks", ("two_marks.py",), "two marked epochs; 4 MiB are kept of each: too few steps",
        (r"leaks? .*not judged",), never=(NOTHING_FOUND,), by_day=True,
    ),
    Screen(
        "more/accumulate_gradients", ("accumulate_gradients.py",),
        "gradient accumulation; 128 KiB leak at the line that clones a gradient, and a graph, in each step",
        (_LEAK, r"accumulate_gradients\.py\(\d+\)", r"held by .*losses"),
    ),
    Screen(
        "more/accumulate_gradients_steps", ("accumulate_gradients.py",),
        "the same; only the optimizer's steps 2 and 3 are asked for",
        (rf"{_LEAK}|leaks? .*not judged",), never=(NOTHING_FOUND,), options=("--steps=2,3",),
    ),
    Screen(
        "more/two_optimizers", ("two_optimizers.py",), "two optimizers a round; the samples of ten rounds are kept, 256 KiB each",
        (_LEAK, r"two_optimizers\.py\(7\)", r"held by .*samples"),
    ),
    Screen(
        "more/two_optimizers_steps", ("two_optimizers.py",), "the same; steps 4 to 6 of the optimizers are asked for",
        (rf"{_LEAK}|leaks? .*not judged",), never=(NOTHING_FOUND,), options=("--steps=4,5,6",),
    ),
    Screen(
        "more/two_optimizers_ok", ("two_optimizers.py", "ok"), "healthy: the samples of the last round are kept",
        (r"^nothing found|not judged",), never=(NO_LEAK_NAMED,),
    ),
    Screen(
        "more/device_fallback", ("device_fallback.py",),
        "leaks 256 KiB a step on the CPU; --device=npu, which is not there", (r"npu not observed",), never=(NOTHING_FOUND,),
        options=("--device=npu",),
    ),
    Screen(
        "more/device_npu_1", ("device_fallback.py",),
        "leaks 256 KiB a step on the CPU; --device=npu:1,cpu, of which one is not there", (_LEAK, r"held by .*kept"),
        says=(r"npu:1 not observed",), options=("--device=npu:1,cpu",),
    ),
    Screen(
        "more/npu_behind_cpu", ("npu_behind_cpu.py",), "10 MiB leak on the NPU; --device=cpu: nobody looked there",
        (r"npu(?::0)? not observed|npu.*not (?:observed|judged)",), never=(NOTHING_FOUND,), options=("--device=cpu",), npu=True,
    ),
    Screen(
        "more/two_cards_two_lines", ("two_cards_two_lines.py",),
        "8 MB leak on npu:0 at line 5, 24 MB on npu:1 at line 6; the worst line is that of npu:1",
        (_LEAK, r"npu:0, npu:1", r"two_cards_two_lines\.py\(6\)", r"held by .*second"), npu=True, devices=2,
    ),
    Screen(
        "more/host_and_card", ("host_and_card.py",), "512 KiB a step leak on the host, 2 MiB a step on the card",
        (_LEAK, r"npu:0", r"held by .*on_card"), npu=True,
    ),
    Screen(
        "more/host_and_card_both", ("host_and_card.py",), "512 KiB a step leak on the host, 2 MiB a step on the card",
        (_LEAK, r"npu:0", r"held by .*on_card"), says=(r"also leak: .*cpu.*host_and_card\.py\(5\)",), npu=True,
        options=("--device=npu,cpu",),
    ),
    Screen(
        "more/copies_to_second", ("copies_to_second.py",), "10 MiB leak on npu:1 in `seen`; nothing on npu:0",
        (_LEAK, r"on npu:1 ", r"copies_to_second\.py\(6\)", r"held by .*seen"), npu=True, devices=2,
    ),
    Screen(
        "more/late_half", ("late_half.py",), "imported after ten of thirty steps; 256 KiB leak in each of the twenty that are seen",
        (_LEAK, r"late_half\.py\(6\)", r"held by .*kept"), way=Way.ALONE,
    ),
    Screen(
        "more/late_thread", ("late_thread.py",), "started from a thread in step 5; 256 KiB leak in each of the 25 steps that are seen",
        (rf"{_LEAK}|leaks? .*not judged",), never=(NOTHING_FOUND,), way=Way.ALONE,
    ),
    Screen(
        "more/start_stop_start", ("start_stop_start.py",), "collected twice, five steps each; 1 MiB leaks in each step",
        (_LEAK, r"start_stop_start\.py\(6\)", r"held by .*kept"), way=Way.ALONE,
    ),
    Screen(
        "more/output_after_events", ("output_after_events.py",), "the folder is chosen after the first tensor: it stays the first one",
        (r"nothing found|not judged",), says=(r"output stays .* before anything is recorded", r"Files in memscopeDumpResults/"),
        never=(NO_LEAK_NAMED,), names_output=False,
    ),
    Screen(
        "more/events_alloc", ("never_freed_events.py",), "healthy; --events=alloc brings free, as the documents say",
        (r"nothing found|not judged",), never=(NO_LEAK_NAMED,), options=("--events=alloc",),
    ),
    Screen(
        "more/events_launch", ("trained.py",), f"{_TRAINED}; --events=launch: no allocation is recorded",
        (r"not judged|nothing was",), never=(NOTHING_FOUND, NO_LEAK_NAMED), options=("--events=launch",),
    ),
    Screen(
        "more/analysis_of_others", ("trained.py",), f"{_TRAINED}; only inefficient memory is asked for",
        (rf"{_LEAK}|leaks? .*not judged",), never=(NOTHING_FOUND,), options=("--analysis=inefficient",),
    ),
    Screen(
        "more/asyncio_running", ("asyncio_loop.py",), "200 replies of 64 KiB are kept in `sessions`; asked while it runs",
        (_LEAK, r"asyncio_loop\.py\(6\)"), says=(r"Still running",), way=Way.RUNNING,
    ),
    Screen(
        "more/asyncio_interrupted", ("asyncio_loop.py",), "200 replies of 64 KiB are kept in `sessions`; Ctrl-C",
        (_LEAK, r"asyncio_loop\.py\(6\)", r"held by .*sessions"), never=(r"_exit|replaced by exec",), way=Way.INTERRUPTED,
    ),
    Screen(
        "more/threads_running", ("threads_healthy.py",), "healthy: 200 answers of two threads; asked while it runs",
        (r"nothing found|not judged",), says=(r"Still running",), never=(NO_LEAK_NAMED,), way=Way.RUNNING,
    ),
    *(
        Screen(
            f"more/trained_{how}", ("trained.py",), f"{_TRAINED}; the log is damaged", (r"damaged|cut|incomplete|" + _LEAK,),
            never=(NOTHING_FOUND,), way=way, varies="which records are hit depends on times in the log",
        )
        for how, way in (("flipped", Way.FLIPPED), ("cut", Way.CUT), ("zeroed", Way.ZEROED))
    ),
    Screen(
        "more/meta_tensors", ("meta_tensors.py",), "tensors on the meta device alone: nothing to record",
        (r"nothing was recorded|not judged",), never=(NOTHING_FOUND, NO_LEAK_NAMED), by_day=True,
    ),
    Screen(
        "more/torch_in_a_branch", ("torch_in_a_branch.py",), "ends with its usage, status 2, before torch",
        (r"nothing was recorded",), says=(r"status 2",), never=(r"NumPy", r"LD_PRELOAD"),
    ),
    Screen(
        "more/exits_early", ("exits_early.py",), "torch is imported, no data is found, status 1",
        (r"nothing was recorded",), says=(r"status 1",), never=(r"status 1; one",),
    ),
    Screen(
        "more/missing_script", ("no/such/train.py", "--lr", "0.1"), "the script is not there: Python says so, status 2",
        (r"nothing was recorded",), says=(r"status 2",), never=(r"LD_PRELOAD",),
    ),
    Screen(
        "more/missing_module", ("-m", "torch.no_such_module"), "the module is not there: Python says so, status 1",
        (r"nothing was recorded",), says=(r"status 1",), never=(r"LD_PRELOAD",),
    ),
    Screen(
        "more/code_alone", ("-c", "import json; print(json.dumps(1))"), "no torch, no NumPy", (r"nothing was recorded",),
        says=(r"neither torch nor CANN was loaded",),
    ),
    Screen(
        "more/daemon", ("daemon.py",), "the process that was started ends at once; its daemon works on and leaks",
        says=(r"left process(?:es)? \d+.* running",), never=(NOTHING_FOUND, r"NumPy"),
        varies="how far the daemon is when the other one has ended",
    ),
    *(
        Screen(
            f"more/{name}", (_program(name), *more), f"healthy: {truth}", (r"filling|nothing found|not judged",),
            says=((rf"filling, {bound}",) if bound else ()), never=(NO_LEAK_NAMED,), by_day=name == "lru_cache",
        )
        for name, more, truth, bound in _FILLS
    ),
    Screen(
        "more/deque_unbounded", ("deque_unbounded.py",), "a deque without a bound that nobody empties: 128 KiB leak a step",
        (_LEAK, r"deque_unbounded\.py\(6\)", r"held by .*recent"), never=(r"filling",),
    ),
    Screen(
        "more/handles_interrupt", ("handles_interrupt.py",), f"{_TRAINED}; catches Ctrl-C and ends with 0",
        (_LEAK, r"handles_interrupt\.py\(7\)", r"held by .*kept"), never=(r"_exit|replaced by exec",), way=Way.INTERRUPTED,
    ),
    Screen(
        "more/handles_interrupt_terminated", ("handles_interrupt.py",), f"{_TRAINED}; SIGTERM, which it does not catch",
        (_LEAK, r"handles_interrupt\.py\(7\)"), says=(r"SIGTERM ended the process",), never=(r"replaced by exec",),
        way=Way.TERMINATED,
    ),
    Screen(
        "more/handles_terminate", ("handles_terminate.py",), "healthy: SIGTERM ends its loop between two steps",
        (r"^nothing found",), never=(NO_LEAK_NAMED, r"SIGTERM ended"), way=Way.TERMINATED,
        varies="how many steps it did before the signal",
    ),
    Screen(
        "more/killed_workers", ("killed_workers.py",),
        "two children keep 5 MiB each and have no steps: too little to judge; all get Ctrl-C",
        (_LEAK + r"|not judged",), never=(NOTHING_FOUND,), says=(r"2 processes",), way=Way.INTERRUPTED,
    ),
)  # fmt: skip
