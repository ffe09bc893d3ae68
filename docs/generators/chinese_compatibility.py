"""The page of packages that were tried, in Chinese."""

from __future__ import annotations

from typing import Final

HEAD = """\
# 试过的软件包

<!-- Generated from docs/generators/compatibility.jsonl by `make docs`; do not edit. -->

每一行是一次运行：一个小程序在 `msmemscope --analysis=decompose` 之下按发布的样子使用该软件包。程序知道自己的每个张量属于谁：参数和缓冲区、梯度及交换梯度的缓冲区、
优化器状态、autograd 所保存的、缓存的各层。它在前向和反向传播的中途、每次更新之前和之后说明这些归属，并与当时存活的每个内存块的归属比较。**相等**表示在每个进程中全部
一致，精确到字节。虚拟 NPU 运行真实的 torch_npu；没有使用 NPU。

`make test-training` 安装这些版本并重新运行训练的程序，它们在 `tests/frameworks/` 中。
"""
VERSIONS: Final = """
## torch_npu 的版本

`make test-lanes` 在虚拟 NPU 上用下列每个版本及其 torch 运行相同的测试；`make test-vllm-ascend` 用真实的 vLLM-Ascend 提供推理服务。差异如下：

| | torch_npu 2.10.0.post4 | torch_npu 2.13.0 | torch_npu 2.14.0 |
|---|---|---|---|
| 采集、内存池、泄漏、归属、监测、step、多进程 | 同 2.13.0 | 支持 | 同 2.13.0 |
| `--events=allocator` | 不支持：分配器没有 trace tracker；事实 `unobserved.allocator` 给出原因 | 支持 | 支持 |
| torch 的内存快照 | 条目不含内存池：不在任何段中的内存块，其池未知 | 条目含内存池 | 同 2.13.0 |
| 算子 | 在 Python 之下观察 | 在 Python 之下观察 | 在 Python 中观察：torch 2.14 以另一种方式调用算子 |
| 与 CUDA 版 torch 一起 | 可加载 | 可加载 | 进程终止：两者注册同名的设置；请使用 CPU 版 |

vLLM-Ascend 0.23.0 与 vLLM 0.23.0、torch_npu 2.10.0.post4 在 eager 模式下生成 token；权重和 KV 缓存都有其归属，精确到字节。由于索引中没有 triton-ascend，其唯一的 Triton
kernel 在此由 torch 算子代替；自定义算子需要 `libregister.so`，因此关闭。对于 310P，模型和缓存可以建立并有其归属；第一个 token 止于 ReshapeAndCache。
"""
TEXTS: Final = {
    "Package": "软件包",
    "Version": "版本",
    "Device": "设备",
    "What was checked": "检查的内容",
    "Result": "结果",
    "With": "同时使用",
    "CPU": "CPU",
    "virtual NPU": "虚拟 NPU",
    "equal": "相等",
    "weight": "权重",
    "gradient": "梯度",
    "optimizer_state": "优化器状态",
    "activation": "激活值",
    "kv_cache": "KV 缓存",
    "Trainer, AdamW": "Trainer、AdamW",
    "Trainer, gradient checkpointing": "Trainer、激活重计算",
    "generate": "generate",
    "LoRA, Trainer": "LoRA、Trainer",
    "prepare, gradient accumulation, clipping": "prepare、梯度累积、梯度裁剪",
    "SFTTrainer": "SFTTrainer",
    "GRPOTrainer": "GRPOTrainer",
    "policy loss, every block of memory snapshots known": "策略损失，内存快照的每个内存块都已知",
    "worker, FSDP2 engine, micro-batches, 2 processes": "训练 worker，FSDP2 引擎，微批次，2 个进程",
    "worker, offloaded to the host between calls, 2 processes": "训练 worker，两次调用之间卸载到主机，2 个进程",
    "DistributedDataParallel, 2 processes": "DistributedDataParallel，2 个进程",
    "FullyShardedDataParallel, 2 processes": "FullyShardedDataParallel，2 个进程",
    "fully_shard, 2 processes": "fully_shard，2 个进程",
    "ZeRO 1, bfloat16, 2 processes": "ZeRO 1、bfloat16，2 个进程",
    "ZeRO 2, bfloat16, 2 processes": "ZeRO 2、bfloat16，2 个进程",
    "ZeRO 3, bfloat16, 2 processes": "ZeRO 3、bfloat16，2 个进程",
    "GPT, tensor parallel 2, pipeline parallel 2, bfloat16, 4 processes": "GPT、张量并行 2、流水线并行 2、bfloat16，4 个进程",
}  # fmt: skip
"""Texts of rows; a new one needs a line here. Names of owners are translated one by one."""
