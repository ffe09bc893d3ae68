"""Reports operators to the sanitizer of torch_npu, before and after it is turned on, and says where the memory is."""

from __future__ import annotations

import ctypes
import errno

import mstx
import torch
import torch_npu

import msmemscope

torch.npu.set_device(0)
first, second = (torch.zeros(256, device="npu") for _ in range(2))
mark = f"sanitizer-op: name=my_add;read=x:{first.data_ptr():#x}:1024,y:{second.data_ptr()}:512;write=x:{first.data_ptr()}:1024"
mstx.mark(mark)
msmemscope.enable_npu_sanitizer()
torch.npu.synchronize()
assert torch_npu.npu._sanitizer.npu_sanitizer.enabled
mstx.mark(mark)
mstx.mark("sanitizer-op:read=x:1:2")
mstx.mark("sanitizer-op:name=odd;read=x,y:z:1,:7;write=")
tools = ctypes.CDLL("libms_tools_ext.so", use_errno=True)
tools.mstxMarkA.argtypes = [ctypes.c_char_p, ctypes.c_void_p]
ctypes.set_errno(errno.EDOM)
tools.mstxMarkA(b"sanitizer-op:name=odd;read=x:99999999999999999999999:1", None)
assert ctypes.get_errno() == errno.EDOM
print("address", hex(first.data_ptr()), hex(second.data_ptr()))
