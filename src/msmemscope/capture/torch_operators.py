"""The dispatch mode that sees every operator. Importing this module needs torch to be imported already."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any, ClassVar

import torch
from torch._ops import OpOverload
from torch.utils._python_dispatch import TorchDispatchMode, _get_current_dispatch_mode

from msmemscope import _native
from msmemscope.capture.boxed_calls import learn_boxed_calls
from msmemscope.capture.compiled_graphs import watch_compiled_graphs
from msmemscope.capture.current_device import current_device, device_of
from msmemscope.capture.module_labels import module_labels
from msmemscope.capture.operator_facts import AUTOCAST_KEYS, operator_facts
from msmemscope.capture.tensor_layout import learn_tensor_layout
from msmemscope.capture.watched_devices import warn_of_concurrent_launches, watches_several_devices
from msmemscope.model.devices import DEVICE_CPU, DEVICE_NONE

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import CodeType

    from msmemscope.configuration import Config

NOT_OBSERVED = -128
"""The answer of `describe_device` for devices whose tensors are not recorded; the native collector knows it."""


# Marks a code object so that torch.compile leaves it alone. Torch would otherwise put a decorator around our dispatch
# function that does that too. But the decorator imports all of torch._dynamo into a program that may never compile.
def _find_skip_code() -> Callable[[CodeType], None] | None:
    evaluation = torch._C._dynamo.eval_frame  # noqa: SLF001 - no public name
    try:
        if hasattr(evaluation, "skip_code"):  # until torch 2.6
            skip: Callable[[CodeType], None] = evaluation.skip_code
            return skip
        skip_all = evaluation._FrameExecStrategy(evaluation._FrameAction.SKIP, evaluation._FrameAction.SKIP)  # noqa: SLF001
        return functools.partial(_skip_by_strategy, evaluation.set_code_exec_strategy, skip_all)
    except (AttributeError, TypeError):
        return None


def _skip_by_strategy(set_strategy: Callable[[CodeType, Any], None], strategy: Any, code: CodeType) -> None:
    set_strategy(code, strategy)


_skip_code = _find_skip_code()

_operator_begins = _native.operator_begins
_operator_ends = _native.operator_ends
_show_lazy_keys = _native.show_lazy_keys
_hide_lazy_keys = _native.hide_lazy_keys
_mode_count = torch._C._len_torch_dispatch_stack  # noqa: SLF001 - no public name
_graph_task = torch._C._current_graph_task_id  # noqa: SLF001 - no public name
_gradients_are_on = torch.is_grad_enabled
# Numbers that the native collector knows: the pass that an operator belongs to.
_FORWARD, _BACKWARD, _RECOMPUTATION = 0, 1, 2
_mode_of_key = torch._C._get_dispatch_mode  # noqa: SLF001 - no public name
_LAZY_KEYS = tuple(name for name in ("Conjugate", "Negative", "ZeroTensor") if hasattr(torch._C.DispatchKey, name))  # noqa: SLF001 - no public name
"""Keys for changes that torch makes to tensors where an operator needs it. Torch excludes these keys where it calls a
mode. Without a mode, operators that run others have them."""
_DIFFERENTIATING_KEYS = ("AutogradFunctionality", "AutogradOther", "AutogradNestedTensor")
_KEPT_KEYS = tuple(
    name
    for name in ("ADInplaceOrView", *_DIFFERENTIATING_KEYS, *AUTOCAST_KEYS)
    if hasattr(torch._C.DispatchKey, name)  # noqa: SLF001 - no public name
)
"""Keys that torch excludes there, too. Without a mode, operators keep those of their caller if nothing stands in
front."""
_COUNTING = 1
_DIFFERENTIATING = sum(1 << place for place, name in enumerate(_KEPT_KEYS) if name in _DIFFERENTIATING_KEYS)
_CASTING = sum(1 << place for place, name in enumerate(_KEPT_KEYS) if name in AUTOCAST_KEYS)
_TRACING_KEYS = tuple(
    getattr(torch._C._TorchDispatchModeKey, name)  # noqa: SLF001 - no public name
    for name in ("FAKE", "PROXY", "FUNCTIONAL")
)

# Operator -> number of its plan in the native collector; NO_PLAN for what has no schema.
_NO_PLAN = -1
_plans: dict[Any, int] = {}
# Number of a plan -> the keys that such an operator keeps, a bit for each. Only of those that keep some.
_kept_keys: dict[int, int] = {}


def prepare(config: Config) -> None:
    """Tell the native collector how to read tensors."""
    private = torch._C  # noqa: SLF001 - reading an address must not materialise a lazily copied tensor, as data_ptr does
    # In spite of its name, this is where the storage begins.
    storage_address: Callable[[Any], int] = getattr(private, "_data_address", _storage_address)
    _native.set_tensor_access(torch.Tensor, storage_address, _device_describer(config), torch.device("cpu"))
    if native_is_wanted:
        # Once: programs may begin and end collection around each of their steps.
        OperatorMode.tensors_are_known = OperatorMode.tensors_are_known or learn_tensor_layout()
        OperatorMode.may_be_native = OperatorMode.may_be_native or _native_dispatch_is_possible()
        OperatorMode.may_be_boxed = OperatorMode.may_be_boxed or (
            OperatorMode.tensors_are_known and OperatorMode.may_be_native and learn_boxed_calls()
        )
    _native.learn_lazy_keys(
        tuple(getattr(private.DispatchKey, name).value for name in _LAZY_KEYS),
        tuple(getattr(private.DispatchKey, name).value for name in _KEPT_KEYS),
    )
    _native.set_watch_synchronize(_synchronize_devices)
    watch_compiled_graphs()
    _native.hide_code((OperatorMode.__torch_dispatch__.__code__, OpOverload.__call__.__code__))


def dispatch_boxed(*, is_on: bool) -> None:
    """Record operators before they come to Python, where this torch lets us; or no more.

    Args:
        is_on: Some thread has an `OperatorMode`, and those that are there do not rest.
    """
    _native.dispatch_boxed(is_on and OperatorMode.may_be_boxed)


native_is_wanted = True
"""Whether operators are dispatched and tensors read in native code, where this torch lets us. Tests compare."""


_CALL_WITH_SHORTCUT = (
    "_pyobj_dispatcher", "torch", "_C", "_peek_should_skip_torch_function", "_cpp_dispatch_handle", "_op",
)  # fmt: skip
"""The names that the call of an operator uses since torch 2.14: it may have a dispatcher of Python's in front."""


def _native_dispatch_is_possible() -> bool:
    # Calling an operator must be calling what it holds, and no more.
    names = OpOverload.__call__.__code__.co_names
    calls_directly = names in {("_op",), _CALL_WITH_SHORTCUT}
    shortcut = _CALL_WITH_SHORTCUT[0] if names == _CALL_WITH_SHORTCUT else ""
    state = (_mode_count(), _graph_task(), _gradients_are_on())
    dispatch = OperatorMode.__torch_dispatch__
    ways = (dispatch, _make_plan, _operator_named)
    is_possible: bool = _native.set_dispatch(OpOverload, calls_directly, shortcut, *ways, *state)
    return is_possible


def _storage_address(tensor: torch.Tensor) -> int:
    address: int = tensor.untyped_storage().data_ptr()
    return address


def _synchronize_devices() -> None:
    """Let devices finish their work, also the operators that still wait in torch_npu's own queue."""
    npu = getattr(torch, "npu", None)
    if npu is not None and npu.is_initialized():
        warn_of_concurrent_launches()
        for index in range(npu.device_count()) if npu.device_count() > 1 and watches_several_devices() else (None,):
            npu.synchronize(index)
    elif torch.cuda.is_initialized() and _native.devices_can_be_read():
        for index in range(torch.cuda.device_count()) if watches_several_devices() else (None,):
            torch.cuda.synchronize(index)


def _device_describer(config: Config) -> Callable[[torch.device], tuple[int, bool]]:
    wants_cpu = "cpu" in config.devices

    def describe_device(device: torch.device) -> tuple[int, bool]:
        """The number under which events name a device, and whether that is so for good."""
        if device.type == "cpu":
            return (DEVICE_CPU if wants_cpu else NOT_OBSERVED), True
        if device.type not in {"npu", "cuda"}:
            return NOT_OBSERVED, True
        number = current_device() if device.index is None else device_of(device.type, device.index)
        if number == DEVICE_NONE:
            number = device_of(device.type, 0)  # where a thread begins
        return (number if config.observes(number) else NOT_OBSERVED), device.index is not None

    return describe_device


def _make_plan(operator: Any) -> int:
    if not isinstance(operator, OpOverload):
        return _plans.setdefault(operator, _NO_PLAN)
    facts = operator_facts(operator)
    kept = (
        _COUNTING * facts.counts_within | _DIFFERENTIATING * facts.differentiates_within | _CASTING * facts.casts_within
    )
    number = _native.define_operator(
        facts.name,
        tuple(map(int, facts.inputs)),
        {name: int(use) for name, use in facts.keyword_inputs.items()},
        tuple(map(int, facts.outputs)),
        facts.written_positions,
        facts.written_names,
        facts.writes_later,
        kept,
    )
    # Two threads may both have made one: the first stays.
    number = _plans.setdefault(operator, number)
    if kept:
        _kept_keys[number] = kept
    return number


def _operator_named(name: str, overload: str) -> Any:
    """The operator of torch, if there will never be another one of its name; else None."""
    namespace, _, base_name = name.partition("::")
    defined = getattr(torch.library, "_defs", None)  # what Python has defined can be taken away, and defined anew
    if (namespace != "aten" and defined is None) or (f"{name}.{overload}" if overload else name) in (defined or ()):
        return None
    return getattr(getattr(getattr(torch.ops, namespace), base_name), overload or "default")


# Tuples of argument types -> whether one of them dispatches by itself.
_own_dispatch: dict[tuple[type, ...], bool] = {}


def _has_own_dispatch(types: tuple[type, ...]) -> bool:
    known = _own_dispatch.get(types)
    if known is None:
        default = (torch.Tensor.__torch_dispatch__, torch.nn.Parameter.__torch_dispatch__)
        known = any(getattr(kind, "__torch_dispatch__", None) not in default for kind in types)
        _own_dispatch[types] = known
    return known


def _is_tracing() -> bool:
    return any(_mode_of_key(key) is not None for key in _TRACING_KEYS)


def is_outermost() -> bool:
    """Whether the calling thread is in no dispatch mode, and in no native code of torch: those end in order."""
    return not _mode_count() and not _native.dispatch_depth() and not _native.is_within_torch()


class OperatorMode(TorchDispatchMode):
    """The recorder of the operators of one thread. It never changes what they do.

    Where torch lets us, it calls a native function in the place of `__torch_dispatch__` below. That function does the
    same for usual operators, and leaves the others to `__torch_dispatch__`.
    """

    supports_higher_order_operators = True
    may_be_native: ClassVar = False
    """Whether this torch can be asked from native code what the dispatch must know."""
    tensors_are_known: ClassVar = False
    """Whether native code knows where this torch keeps what of a tensor."""
    may_be_boxed: ClassVar = False
    """Whether native code knows how this torch hands operators over."""

    def __init__(self) -> None:
        super().__init__()
        self._is_resting = False
        self._is_native = False
        self._operators_left = 0

    @classmethod
    def ignore_compile_internals(cls) -> bool:
        """Let torch.compile work as if this mode were not there; otherwise it would fall back to eager mode."""
        return True

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        return _skip_code is None

    def __enter__(self) -> OperatorMode:  # noqa: PYI034 - typing has no Self before Python 3.11
        """Begin to see the operators of the calling thread."""
        before = _mode_count()
        super().__enter__()
        self._is_native = self.may_be_native and _native.dispatch_depth() == before + 1
        _native.hide_mode(self, before + 1)
        self._set_dispatch()
        return self

    def __exit__(self, *exception: object) -> None:
        """See no more of them."""
        super().__exit__(*exception)
        self.__dict__.pop("__torch_dispatch__", None)

    def _set_dispatch(self) -> None:
        if self._is_native and not self._is_resting:
            self.__dict__["__torch_dispatch__"] = _native.dispatch_function(self)
        else:
            self.__dict__.pop("__torch_dispatch__", None)

    def is_on_top(self) -> bool:
        """Whether this mode is the innermost one of the calling thread."""
        return _get_current_dispatch_mode() is self

    def rest(self) -> None:
        """Record nothing for now, where the mode cannot be taken away."""
        self._is_resting = True
        self._set_dispatch()

    def wake(self) -> None:
        """Record again."""
        self._is_resting = False
        self._set_dispatch()

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        """Record the operator, its inputs before it runs and its results after."""
        if _mode_count() and _is_tracing():
            # Below us, torch works out shapes or records a graph: no memory is touched. Its own modes go on from here.
            return func(*args, **kwargs) if kwargs else func(*args)
        if types and _has_own_dispatch(types):
            # Some subclasses of Tensor have a dispatch of their own (DTensor, for example). They go first: the
            # operators that they run on real tensors come here one by one.
            return NotImplemented
        plan = _plans.get(func)
        if plan is None:
            plan = _make_plan(func)
        if plan < 0 or self._is_resting:
            return func(*args, **kwargs) if kwargs else func(*args)
        running = _FORWARD
        if _graph_task() >= 0:
            # A backward pass makes its gradients with gradients off; what a checkpoint runs again is a forward pass.
            running = _RECOMPUTATION if _gradients_are_on() else _BACKWARD
        try:
            # Within: a signal handler of the program may raise as soon as this has returned.
            _operator_begins(plan, func, args, kwargs, running)
            excluded = _show_lazy_keys(_kept_keys.get(plan, 0))
            try:
                result = func(*args, **kwargs) if kwargs else func(*args)
            finally:
                _hide_lazy_keys(excluded)
        except BaseException:
            _operator_ends(plan, None)
            raise
        _operator_ends(plan, result)
        if module_labels.is_on:
            self._operators_left -= 1
            if self._operators_left < 0:
                self._operators_left = module_labels.operators_ran()
        return result


if _skip_code is not None:
    for _function in (OperatorMode.__torch_dispatch__, _make_plan, _operator_named, _has_own_dispatch, _is_tracing):
        _skip_code(_function.__code__)
