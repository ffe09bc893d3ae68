"""The C interface of aclnn functions, called with what is not an argument: prints "NAME STATUS TEXT" for each call."""

from __future__ import annotations

import ctypes

import torch

INT64, FLOAT = 9, 0


def main() -> None:
    """Make the calls."""
    torch.ones(1, device="npu")  # sets the device
    operators, runtime = ctypes.CDLL("libopapi.so"), ctypes.CDLL("libascendcl.so")
    runtime.aclGetRecentErrMsg.restype = ctypes.c_char_p
    for name in ("aclCreateTensor", "aclCreateScalar", "aclCreateIntArray", "aclCreateTensorList"):
        getattr(operators, name).restype = ctypes.c_void_p

    sizes = (ctypes.c_int64 * 1)(4)
    storage = (ctypes.c_float * 4)(1, 2, 3, 4)

    def tensor() -> ctypes.c_void_p:
        return ctypes.c_void_p(
            operators.aclCreateTensor(sizes, ctypes.c_uint64(1), FLOAT, None, ctypes.c_int64(0), 2, sizes,
                                      ctypes.c_uint64(1), storage)
        )  # fmt: skip

    one = ctypes.c_int64(1)
    x, result = tensor(), tensor()
    scalar = ctypes.c_void_p(operators.aclCreateScalar(ctypes.byref(one), INT64))
    numbers = ctypes.c_void_p(operators.aclCreateIntArray(sizes, ctypes.c_uint64(1)))
    tensors = ctypes.c_void_p(operators.aclCreateTensorList((ctypes.c_void_p * 1)(tensor()), ctypes.c_uint64(1)))
    torn = ctypes.c_void_p(operators.aclCreateTensorList((ctypes.c_void_p * 1)(None), ctypes.c_uint64(1)))
    workspace, executor = ctypes.c_uint64(), ctypes.c_void_p()
    room = (ctypes.byref(workspace), ctypes.byref(executor))

    def show(name: str, status: int) -> None:
        print(name, status, runtime.aclGetRecentErrMsg().decode())

    plan = operators.aclnnAddGetWorkspaceSize
    show("scalar for a tensor:", plan(scalar, x, scalar, result, *room))
    show("list for a tensor:", plan(tensors, x, scalar, result, *room))
    show("tensor for a scalar:", plan(x, x, x, result, *room))
    show("no tensor:", plan(None, x, scalar, result, *room))
    show("no scalar:", plan(x, x, None, result, *room))
    show("no room:", plan(x, x, scalar, result, None, None))
    show("tensor for numbers:", operators.aclnnFlipGetWorkspaceSize(x, x, result, *room))
    show("numbers for a list:", operators.aclnnCatGetWorkspaceSize(numbers, ctypes.c_int64(0), result, *room))
    show("list of nothing:", operators.aclnnCatGetWorkspaceSize(torn, ctypes.c_int64(0), result, *room))
    show("no executor:", operators.aclnnAdd(None, ctypes.c_uint64(0), None, None))
    show("tensor for an executor:", operators.aclnnAdd(None, ctypes.c_uint64(0), x, None))
    show("right:", plan(x, x, scalar, result, *room))
    show("tensor for a stream:", operators.aclnnAdd(None, ctypes.c_uint64(0), executor, x))
    show("right again:", plan(x, x, scalar, result, *room))
    show("run:", operators.aclnnAdd(None, ctypes.c_uint64(0), executor, None))
    print([storage[index] for index in range(4)], torch.ones(2, device="npu").tolist())


if __name__ == "__main__":
    main()
