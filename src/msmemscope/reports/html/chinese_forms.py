"""Forms of sentences of results in Chinese, see `phrases.Phrases`; the first that fits is taken."""

from __future__ import annotations

from typing import Final

CHINESE_FORMS: Final = {
    "native memory of {subject}": "{subject} 的本地内存",
    # --- what was found
    "leak: {size} in {count} block[s] on {device}[ at {site}][ ({other}) and {more} more line[s]][, {growth} per step], "
    "in step[s] {first}[ to {last}][, held by {chain}][ ({who})]": (
        "泄漏: {device} 上 {count} 个内存块, 共 {size}[, 位于 {site}][ ({other}) 及另外 {more} 行][, 每步 {growth}], "
        "第 {first}[ 至 {last}] 步[, 被 {chain} 持有][ ({who})]"
    ),
    "slow leak: {size} on {device}[ at {site}][ ({other}) and {more} more line[s]][, {growth} per step], in steps {first} to {last}"
    "[, held by {chain}][ ({who})]": (
        "缓慢泄漏: {device} 上 {size}[, 位于 {site}][ ({other}) 及另外 {more} 行][, 每步 {growth}], 第 {first} 至 {last} 步"
        "[, 被 {chain} 持有][ ({who})]"
    ),
    "slow leak: {size} on {device}[ at {site}][ ({other}) and {more} more line[s]], in parts {first} to {last} of the run, "
    "which has no steps[, held by {chain}][ ({who})]": (
        "缓慢泄漏: {device} 上 {size}[, 位于 {site}][ ({other}) 及另外 {more} 行], 在没有步的运行的第 {first} 至 {last} 段"
        "[, 被 {chain} 持有][ ({who})]"
    ),
    "slow leak: {size} on {device}[ at {site}][ ({other}) and {more} more line[s]], before the first step has ended"
    "[, held by {chain}][ ({who})]": (
        "缓慢泄漏: {device} 上 {size}[, 位于 {site}][ ({other}) 及另外 {more} 行], 第一步结束之前[, 被 {chain} 持有][ ({who})]"
    ),
    "slow leak: {size} on {device}[ at {site}][ ({other}) and {more} more line[s]], after the last step"
    "[, held by {chain}][ ({who})]": (
        "缓慢泄漏: {device} 上 {size}[, 位于 {site}][ ({other}) 及另外 {more} 行], 最后一步之后[, 被 {chain} 持有][ ({who})]"
    ),
    "slow leak: {size} on {device}[ at {site}][ ({other}) and {more} more line[s]], within step {number}"
    "[, held by {chain}][ ({who})]": (
        "缓慢泄漏: {device} 上 {size}[, 位于 {site}][ ({other}) 及另外 {more} 行], 第 {number} 步之内[, 被 {chain} 持有][ ({who})]"
    ),
    "leak: {size} on {device}[ at {site}], waiting for the garbage collector in a reference cycle through {chain}[ ({who})]": (
        "泄漏: {device} 上 {size}[, 位于 {site}], 在经过 {chain} 的循环引用中等待垃圾回收[ ({who})]"
    ),
    "out of memory on {device}[ in step {first}]: {cause}, {size} in gaps[ at {site}][, held by {chain}] "
    "({asked} refused[ at {subject}][; handled[, later steps: {more}]])[ ({who})]": (
        "{device} 内存耗尽[, 第 {first} 步]: {cause}, 空隙共 {size}[, 位于 {site}][, 被 {chain} 持有] "
        "(被拒绝的请求: {asked}[, 位于 {subject}][; 程序已处理[, 其后又有 {more} 步]])[ ({who})]"
    ),
    "out of memory on {device}[ in step {first}]: memory outside of the pool, at least {size}[ in {count} blocks][ at {site}]"
    "[, held by {chain}] ({asked} refused[; handled[, later steps: {more}]])[ ({who})]": (
        "{device} 内存耗尽[, 第 {first} 步]: 内存池之外的内存, 至少 {size}[, {count} 个内存块][, 位于 {site}][, 被 {chain} 持有] "
        "(被拒绝的请求: {asked}[; 程序已处理[, 其后又有 {more} 步]])[ ({who})]"
    ),
    "out of memory on {device}[ in step {first}]: {cause}[, {size}][ in {count} blocks][ at {site}][, held by {chain}] "
    "({asked} refused[; handled[, later steps: {more}]])[ ({who})]": (
        "{device} 内存耗尽[, 第 {first} 步]: {cause}[, {size}][, {count} 个内存块][, 位于 {site}][, 被 {chain} 持有] "
        "(被拒绝的请求: {asked}[; 程序已处理[, 其后又有 {more} 步]])[ ({who})]"
    ),
    "{first}. {cause}: {size}[ in {count} blocks][ ({number} % of what was in use)][, at {site}][, held by {chain}]; enough alone": (
        "{first}. {cause}: {size}[, {count} 个内存块][ (占使用量的 {number} %)][, 位于 {site}][, 被 {chain} 持有]; 单独即足够"
    ),
    "{first}. {cause}: {size}[ in {count} blocks][ ({number} % of what was in use)][, at {site}][, held by {chain}]; not enough "
    "alone": (
        "{first}. {cause}: {size}[, {count} 个内存块][ (占使用量的 {number} %)][, 位于 {site}][, 被 {chain} 持有]; 单独不足"
    ),
    "out of memory: on {device}[ at {site}], {asked} asked for[, {number} s after recording began][ ({who})]": (
        "内存耗尽: {device}[, 位于 {site}], 请求 {asked}[, 记录开始后 {number} s][ ({who})]"
    ),
    "Set {name}=pinned_max_round_threshold_mb:1[ (PyTorch 2.13 or later)], so that requests of more than 1 MiB are not rounded; or pin "
    "one buffer and take views of it.": (
        "请设置 {name}=pinned_max_round_threshold_mb:1[ (PyTorch 2.13 或更高版本)], 使大于 1 MiB 的申请不被取整; 或锁定一个缓冲区并使用它的视图。"
    ),
    "Set {name}=expandable_segments:True: replayed with it, {size} are reserved; or call empty_cache() where sizes change.": (
        "请设置 {name}=expandable_segments:True: 重放表明这样只预留 {size}; 或在尺寸变化处调用 empty_cache()。"
    ),
    "Copy to memory that is not pinned, pin one buffer for all, or set {name}=pinned_max_cached_size_mb:1"
    "[ (PyTorch 2.13 or later)].": (
        "请复制到非锁页内存, 或为全部数据锁定一个缓冲区, 或设置 {name}=pinned_max_cached_size_mb:1[ (PyTorch 2.13 或更高版本)]。"
    ),
    "overwritten as declared: {size} at {site}, {said}": "按声明改写: {size}, 位于 {site}, {said}",
    "overwritten as declared: {size}, {said}": "按声明改写: {size}, {said}",
    "overwritten as declared: at {site}, {said}": "按声明改写: 位于 {site}, {said}",
    "overwritten: {size} at {site}, {said}": "被改写: {size}, 位于 {site}, {said}",
    "overwritten: {size} before {site}, {said}": "被改写: {size}, 在 {site} 之前, {said}",
    "overwritten: before {site}, {said}": "被改写: 在 {site} 之前, {said}",
    "overwritten: {size}, {said}": "被改写: {size}, {said}",
    "overwritten: at {site}, {said}": "被改写: 位于 {site}, {said}",
    "host memory: {size} on {device}, {growth} per step, in steps {first} to {last}, outside of tensors: Python objects or native "
    "libraries, whose allocations are not observed[ ({who})]": (
        "主机内存: {device} 上 {size}, 每步 {growth}, 第 {first} 至 {last} 步, 不属于张量: 来自未被观测的 Python 对象或本地库的分配[ ({who})]"
    ),
    "host memory: {size} on {device}, {growth} per step, in steps {first} to {last}, CPU tensors, Python objects or native libraries, "
    "whose allocations are not observed[ ({who})]": (
        "主机内存: {device} 上 {size}, 每步 {growth}, 第 {first} 至 {last} 步, 来自未被观测的 CPU 张量、Python 对象或本地库的分配[ ({who})]"
    ),
    "host memory: {size} on {device}, {growth} per step, in steps {first} to {last}[, outside of tensors]: sampled allocations explain "
    "little of it[ ({who})]": (
        "主机内存: {device} 上 {size}, 每步 {growth}, 第 {first} 至 {last} 步[, 不属于张量]: 对分配的采样只能解释其中很少一部分[ ({who})]"
    ),
    "host memory: {size} on {device}, {growth} per step, in steps {first} to {last}, freed, and kept by the C library in gaps between "
    "other blocks[ ({who})]": (
        "主机内存: {device} 上 {size}, 每步 {growth}, 第 {first} 至 {last} 步, 已释放, 但被 C 库保留在其他内存块之间的空隙中[ ({who})]"
    ),
    "host memory: {size} on {device} at {site}, {growth} per step, in steps {first} to {last}[, outside of tensors]: about {other} of "
    "that line are alive, {said}[, held by {chain}][ ({who})]": (
        "主机内存: {device} 上 {size}, 位于 {site}, 每步 {growth}, 第 {first} 至 {last} 步[, 不属于张量]: 该行约有 {other} 仍存活, {said}"
        "[, 被 {chain} 持有][ ({who})]"
    ),
    "host memory: {size} on {device} at {site}, over the run[, outside of tensors]: about {other} of that line are alive, {said}"
    "[, held by {chain}][ ({who})]": (
        "主机内存: {device} 上 {size}, 位于 {site}, 在整个运行期间[, 不属于张量]: 该行约有 {other} 仍存活, {said}[, 被 {chain} 持有][ ({who})]"
    ),
    "host memory: {size} on {device}, {growth} per step, in steps {first} to {last}[, outside of tensors], held by {chain}[ ({who})]": (
        "主机内存: {device} 上 {size}, 每步 {growth}, 第 {first} 至 {last} 步[, 不属于张量], 被 {chain} 持有[ ({who})]"
    ),
    "host memory: {size} on {device}, copied from the process that forked this one: to read Python objects writes their reference "
    "counts, held by {chain}[ ({who})]": (
        "主机内存: {device} 上 {size}, 从 fork 出本进程的进程复制而来: 读取 Python 对象会写入其引用计数, 被 {chain} 持有[ ({who})]"
    ),
    "host memory: {size} on {device}[ at {site}], {growth} per step, in steps {first} to {last}, pinned: torch's allocator gives none "
    "of it back, so that sizes which come once add up[ ({who})]": (
        "主机内存: {device} 上 {size}[, 位于 {site}], 每步 {growth}, 第 {first} 至 {last} 步, 锁页: torch 的分配器从不归还, "
        "因此只出现一次的大小会累积[ ({who})]"
    ),
    "reserved: {size} on {device}[ at {site}], cached in sizes that fit nothing later: {other} reserved for {growth} in use"
    "[ ({who})]": (
        "预留: {device} 上 {size}[, 位于 {site}], 缓存的块大小不再适合后来的请求: 预留 {other}, 使用 {growth}[ ({who})]"
    ),
    "reserved: {size} on {device}[ at {site}], cached for stream {number}, where no other stream gets it: {other} reserved for "
    "{growth} in use[ ({who})]": (
        "预留: {device} 上 {size}[, 位于 {site}], 为流 {number} 缓存, 其他流无法使用: 预留 {other}, 使用 {growth}[ ({who})]"
    ),
    "reserved: {size} on {device}[ at {site}], freed and waiting for another stream that uses it (record_stream): {other} reserved "
    "for {growth} in use[ ({who})]": (
        "预留: {device} 上 {size}[, 位于 {site}], 已释放, 等待使用它的另一个流 (record_stream): 预留 {other}, 使用 {growth}[ ({who})]"
    ),
    "reserved: {size} on {device}[ at {site}], pinned and not asked for, rounded up to powers of two: {other} pinned for {growth} "
    "asked for[ ({who})]": (
        "预留: {device} 上 {size}[, 位于 {site}], 被锁页但没有请求, 向上取整到 2 的幂: 锁页 {other}, 请求 {growth}[ ({who})]"
    ),
    "inefficient: {size} on {device}[ at {site}], {number} % of the peak of {pool} could be saved[ ({who})]": (
        "低效: {device} 上 {size}[, 位于 {site}], 可节省 {pool} 峰值的 {number} %[ ({who})]"
    ),
    "nothing found: {parts} ({count} event[s] of {said})": "未发现问题: {parts} ({said}的 {count} 个事件)",
    "{sentences}; otherwise {parts} ({count} event[s] of {said})": "{sentences}; 此外{parts} ({said}的 {count} 个事件)",
    "{subject} not judged: {reason} ({count} event[s] of {said})": "{subject}未判断: {reason} ({said}的 {count} 个事件)",
    "{device} not observed: {reason} ({count} event[s] of {said})": "未观察 {device}: {reason} ({said}的 {count} 个事件)",
    "{subject} not judged: {reason}": "{subject}未判断: {reason}",
    "{device} not observed: {reason}": "未观察 {device}: {reason}",
    "{option} leaves [it][them] out": "{option} 没有选择它",
    "{name} step[s] ha[s][ve] ended, at least {more} are needed": "结束了 {name} 步, 至少需要 {more} 步",
    "host memory rose by {size} over the run, and sampled allocations explain little of it: pages of a file that is mapped "
    "copy-on-write, for example": "主机内存在运行期间增长 {size}, 采样的分配只能解释其中一小部分: 例如以写时复制方式映射的文件的页",
    "host memory outside of tensors rose by {size} over {count} step[s][, most of it at {site}]; at least {more} are needed": (
        "张量之外的主机内存在 {count} 步内增长 {size}[, 大部分位于 {site}]; 至少需要 {more} 步"
    ),
    "host memory outside of tensors rose by {size} over {count} step[s][, most of it at {site}]; they were too short to tell more": (
        "张量之外的主机内存在 {count} 步内增长 {size}[, 大部分位于 {site}]; 各步太短, 无法作出更多判断"
    ),
    "there are too few steps and {count} allocations; without steps, at least {more} are needed": (
        "步数太少, 且只有 {count} 次分配; 没有步时至少需要 {more} 次"
    ),
    "and {count} more": "以及另外 {count} 项",
    "nothing was judged ({count} event[s] of {said})": "没有可判断的内容 ({said}的 {count} 个事件)",
    "{count} process[es]": "{count} 个进程",
    "no leak over {count} step[s]": "{count} 步内无泄漏",
    # --- where
    "rank[s] {numbers}, {who}": "rank {numbers}, {who}",
    "rank[s] {numbers}": "rank {numbers}",
    "process[es] {numbers} and {more} more": "进程 {numbers} 及另外 {more} 个",
    "process[es] {numbers}": "进程 {numbers}",
    "rank {first}: {said}": "rank {first}: {said}",
    "process {first}: {said}": "进程 {first}: {said}",
    "what is known of {who}": "{who} 的已知情况",
    "{device} HOST, pinned": "{device} HOST, 锁页",
    # --- facts of a process
    "Peak on {device} ({pool})[ of {who}]: {size} in {count} block[s][, {number} s after recording began]: {parts}": (
        "[{who} 的 ]{device} ({pool}) 峰值: {count} 个内存块, 共 {size}[, 记录开始后 {number} s]: {parts}"
    ),
    "(others) {size} ({number} %)": "(其他) {size} ({number} %)",
    "(outside operators)": "(算子之外)",
    "and the peaks of {count} more pool[s]": "以及另外 {count} 个内存池的峰值",
    "Leaks[ over {first} step[s]]: {size} in {count} block[s] at {more} call site[s]": (
        "泄漏[ ({first} 步)]: {more} 个调用点的 {count} 个内存块, 共 {size}"
    ),
    "No leaked blocks[ over {first} step[s]], but {count} call site[s] that grow": "无泄漏的内存块[ ({first} 步)], 但有 {count} 个调用点在增长",
    "No leaks[ over {first} step[s]]": "无泄漏[ ({first} 步)]",
    "Inefficient memory: {count} block[s]; fixing all of it saves {parts}": "低效内存: {count} 个内存块; 全部修复可节省 {parts}",
    "{size} of the peak of {pool}": "{pool} 峰值的 {size}",
    "Watched memory: {count} unexpected change[s]": "被监视的内存: {count} 次意外的改变",
    "Memory ran out {count} time[s][; the last time: {said}]": "内存耗尽 {count} 次[; 最后一次: {said}]",
    "and the same of {count} more processes below": "下面还有另外 {count} 个进程的相同内容",
    # --- facts of a finding
    "at least the {size} asked for": "请求的至少 {size}",
    "the {size} asked for": "请求的 {size}",
    "in step[s] {first}[ to {last}]: {count} of {more} judged": "第 {first}[ 至 {last}] 步: 判断的 {more} 步中有 {count} 步",
    "{first} to {last}": "{first} 至 {last}",
    "{size} to {other}": "{size} 至 {other}",
    "{chain}, in a reference cycle through {name}": "{chain}, 位于经过 {name} 的循环引用中",
    "{chain}, which its own autograd graph holds[: backward(create_graph=True)]": (
        "{chain}, 由它自己的自动求导图持有[: backward(create_graph=True)]"
    ),
    "{chain} -> autograd graph": "{chain} -> 自动求导图",
    "exception being handled -> {name}": "正在处理的异常 -> {name}",
    "{chain}, from {name}": "{chain}, 来自 {name}",
    "{name} and {more} more": "{name} 及另外 {more} 个",
    # --- memory that ran out
    "{asked} asked for[, {number} s after recording began]": "请求 {asked}[, 记录开始后 {number} s]",
    "at least {size}": "至少 {size}",
    "{name} failed[ {count} times], called from {site}": "{name} 失败[ {count} 次], 调用自 {site}",
    "{size} of the device were free": "设备空闲 {size}",
    "{size} of {whole} were free[; {growth} reserved by the framework, {other} of it allocated]": (
        "{whole} 中空闲 {size}[; 框架预留 {growth}, 其中已分配 {other}]"
    ),
    "{asked} asked for; {size} in use[ + {pinned} pinned][ + {idle} reserved and idle][ + {rest} of the rest of the process]"
    "[ + {others} of anything else][ + {outside} outside of the pools][ + {processes} of other processes][ + {free} free] = "
    "{whole} of {subject}[; {reason}]": (
        "请求 {asked}; 使用中 {size}[ + 锁页 {pinned}][ + 预留且空闲 {idle}][ + 进程其余部分 {rest}][ + 其他 {others}][ + 内存池之外 {outside}]"
        "[ + 其他进程 {processes}][ + 空闲 {free}] = {subject}的 {whole}[; {reason}]"
    ),
    "a limit of torch refused it (set_per_process_memory_fraction)[, which is less than {size}]": (
        "被 torch 自身的上限拒绝 (set_per_process_memory_fraction)[, 该上限小于 {size}]"
    ),
    "out of memory on {device}: the kernel ended the process, its control group may have {size}; it had {parts}[ ({who})]": (
        "{device} 内存不足: 内核结束了进程, 其控制组最多可用 {size}; 进程占用 {parts}[ ({who})]"
    ),
    "out of memory on {device}: the kernel ended the process, the machine had no more; it had {parts}[ ({who})]": (
        "{device} 内存不足: 内核结束了进程, 机器已没有更多内存; 进程占用 {parts}[ ({who})]"
    ),
    "out of memory on {device}: the process was lost when its control group used {size} of {whole}; it had {parts}[ ({who})]": (
        "{device} 内存不足: 进程消失时其控制组占用 {whole} 中的 {size}; 进程占用 {parts}[ ({who})]"
    ),
    "out of memory on {device}: the process was lost when its control group used {size} of {whole}; CPU tensors had {other} at most[ ({who})]": (
        "{device} 内存不足: 进程消失时其控制组占用 {whole} 中的 {size}; CPU 张量最多占用 {other}[ ({who})]"
    ),
    "its control group may have {size}; it used {other} at most, {whole} at the end": (
        "其控制组最多可用 {size}; 最多占用 {other}, 结束时占用 {whole}"
    ),
    "{size} of Python objects": "Python 对象 {size}",
    "{size} of NumPy arrays": "NumPy 数组 {size}",
    "{size} of CPU tensors": "CPU 张量 {size}",
    "{size} of pinned memory": "锁页内存 {size}",
    "{size} of shared memory": "共享内存 {size}",
    "{size} of threads": "线程 {size}",
    "{size} of native memory[ of {subject}]": "[{subject} 的]本地内存 {size}",
    "{size} of memory that the C library keeps": "C 库保留的内存 {size}",
    "out of memory on {device}: the kernel ended the process, its control group may have {size}; CPU tensors had {other} at most[ ({who})]": (
        "{device} 内存不足: 内核结束了进程, 其控制组最多可用 {size}; CPU 张量最多占用 {other}[ ({who})]"
    ),
    "out of memory on {device}: the kernel ended the process, the machine had no more; CPU tensors had {other} at most[ ({who})]": (
        "{device} 内存不足: 内核结束了进程, 机器已没有更多内存; CPU 张量最多占用 {other}[ ({who})]"
    ),
    "{size} of the machine were free": "机器空闲 {size}",
    "{size} of the device were free, so a limit refused it (of torch, or a quota)": (
        "设备空闲 {size}, 因此是被上限拒绝的 (torch 的上限或配额)"
    ),
    "A configured limit: the pool held {size}, and {asked} were refused, while {other} of the device were free: torch refused them "
    "(set_per_process_memory_fraction), or a quota.": (
        "配置的上限: 内存池持有 {size}, 而设备空闲 {other} 时{asked} 被拒绝: 由 torch (set_per_process_memory_fraction) 或配额拒绝。"
    ),
    "A configured limit: the process may have {size} ({name}).": "配置的上限: 进程最多可用 {size} ({name})。",
    "alive then: nothing that was recorded": "当时存活: 没有记录到",
    "alive then: {parts}": "当时存活: {parts}",
    "{size} in {count} block[s] ({pool})": "{pool}: {count} 个内存块, 共 {size}",
    "Leak: {size}[ in {count} blocks] were kept by steps that had ended, more with each step[ ({number} % of what was in use)]{said}": "泄漏: 已结束的步保留了 {size}[, {count} 个内存块][ (占使用量的 {number} %)], 一步比一步多{said}",
    "Kept: the program had collected {size}[ in {count} blocks] that no step needs[ ({number} % of what was in use)]{said}": "保留: 程序收集了任何步都不需要的 {size}[, {count} 个内存块][ (占使用量的 {number} %)]{said}",
    "An exception keeps the variables of a failed attempt: {size}[ in {count} blocks][ ({number} % of what was in use)]{said}": "异常保留了失败的尝试中的变量: {size}[, {count} 个内存块][ (占使用量的 {number} %)]{said}",
    "Reference cycles: {size}[ in {count} blocks] wait for the garbage collector[ ({number} % of what was in use)]{said}": "循环引用: {size}[, {count} 个内存块][ (占使用量的 {number} %)] 等待垃圾回收{said}",
    "Bounded container: {size}[ in {count} blocks] are entries of one that the program bounds[ ({number} % of what was in use)]{said}": (
        "有上限的容器: 程序设定了上限的容器中的元素占用 {size}[, {count} 个内存块][ (占使用量的 {number} %)]{said}"
    ),
    "Bounded container: the entries that it takes come to {size}{said}": "有上限的容器: 装满时元素共占用 {size}{said}",
    "{size} in {count} blocks": "{count} 个内存块, 共 {size}",
    "Second model: another model beside this one has {size}{said}": "第二个模型: 除此模型外另一个模型占用 {size}{said}",
    "More blocks than before: {size} more than an earlier step ever had, in blocks that are mostly no larger{said}": (
        "内存块比之前多: 比之前任何一步的最大值多 {size}, 而其中大部分内存块并没有变大{said}"
    ),
    "Batch jump: {size} more than the same lines had asked for before{said}": "批次突增: 比相同的行之前请求的多 {size}{said}",
    "Batch jump: behind step {first} the program had asked for {size} more than that step ever had{said}": (
        "批次突增: 第 {first} 步之后程序请求的比该步最多时还多 {size}{said}"
    ),
    "Memory outside of the pool: [at least ]{size} of the {whole} of the device were neither free ({other}) nor the pool's "
    "({growth}): another process, or what this one took from the driver itself.": (
        "内存池之外的内存: 设备的 {whole} 中有 {size} 既不空闲 ({other}) 也不属于内存池 ({growth}): 另一个进程, 或本进程直接向驱动申请的内存。"
    ),
    "Memory outside of the pool: at least {size} of the device were neither free ({other}) nor the pool's ({growth}): another "
    "process, or what this one took from the driver itself.": (
        "内存池之外的内存: 设备至少有 {size} 既不空闲 ({other}) 也不属于内存池 ({growth}): 另一个进程, 或本进程直接向驱动申请的内存。"
    ),
    "KV cache: caches grew by {size} over the steps that had ended{said}": "KV 缓存: 在已结束的步中缓存增长了 {size}{said}",
    "Optimizer state: the first step of the optimizer takes {size}{said}": "优化器状态: 优化器的第一步占用 {size}{said}",
    "Kept: {size}[ in {count} blocks] are in a graph that grew, and wait for its backward pass[ ({number} % of what was in use)]{said}": (
        "保留: {size}[, {count} 个内存块] 在不断增长的计算图中, 等待反向传播[ (占使用量的 {number} %)]{said}"
    ),
    "Checkpoint: what is loaded takes {size} beside what is there already{said}": "检查点: 除已有的内存外, 加载的内容占用 {size}{said}",
    "Checkpoint: copies for a checkpoint take {size} beside what they copy{said}": "检查点: 除被复制的内存外, 检查点的副本占用 {size}{said}",
    "Workspace: an operator asked for {size} more of workspace than any before it{said}": (
        "工作区: 一个算子请求的工作区比之前任何算子多 {size}{said}"
    ),
    "The program has views of [less than ]{number} % of this memory, and each keeps its whole block. Keep copies: view.clone().": (
        "程序只持有这些内存[不到 ] {number} % 的视图, 而每个视图都保留整个内存块。请保存副本: view.clone()。"
    ),
    "Model too large: weights and buffers alone come to {size}{said}": "模型过大: 仅权重和缓冲区就有 {size}{said}",
    "Batch jump: step {first} had asked for {size} at the operator where step {last} had {other}, {number} times as much{said}": (
        "批次突增: 在同一算子处, 第 {first} 步已请求 {size}, 第 {last} 步为 {other}, 是其 {number} 倍{said}"
    ),
    "; the step needs about {size} of the pools in full[, {other} more than there is].": (
        "; 这一步总共约需内存池 {size}[, 比现有的多 {other}]。"
    ),
    "A configured limit: the pool held {size}, and torch itself refused {asked} (set_per_process_memory_fraction)"
    "[, while {other} of the device were free].": (
        "配置的上限: 内存池持有 {size}, torch 自身拒绝了{asked} (set_per_process_memory_fraction)[, 而设备空闲 {other}]。"
    ),
    "Fragmentation: {size} of the {whole} that the pool held were free,[ with the {growth} free on the device] enough for {asked}, "
    "but {said}.": "碎片: 内存池持有的 {whole} 中空闲 {size},[ 加上设备空闲的 {growth},] 足够{asked}, 但{said}。",
    "no gap could be used": "没有可用的空隙",
    "the largest gap was {size}": "最大的空隙为 {size}",
    "Another process: {size} of the {whole} of the device were not this process's, and {said}.": (
        "其他进程: 设备的 {whole} 中有 {size} 不属于本进程, 而且{said}。"
    ),
    "Growth outside the framework: {size} of the driver's memory were no pool's[, mostly {name}][ at {site}], and {said}.": (
        "框架之外的增长: 驱动内存中有 {size} 不属于内存池[, 主要是 {name}][, 位于 {site}], 而且{said}。"
    ),
    "[at least ]{size} were missing for the {other} asked for": "请求的 {other} 还缺 {size}",
    "One large block: {asked} at once and {size} in use by {pool}[, {growth} beside them] exceed the {whole} of {subject} by "
    "[at least ]{other}.": (
        "一个很大的内存块: 一次请求{asked}, {pool}使用了 {size}[, 此外还有 {growth}], 合计超出{subject}的 {whole} 达 {other}。"
    ),
    "Real shortage: {size} in use by {pool}[, {growth} beside them], and {asked} exceed the {whole} of {subject} by "
    "[at least ]{other}{said}": "真正不足: {pool}使用了 {size}[, 此外还有 {growth}], 再加上{asked}, 超出{subject}的 {whole} 达 {other}{said}",
    "Real shortage: {size} in use by {pool}[, {growth} beside them], and no gap of the {other} between them holds {asked}{said}": (
        "真正不足: {pool}使用了 {size}[, 此外还有 {growth}], 其间 {other} 的空隙中没有一个能容纳{asked}{said}"
    ),
    "The cause is unknown: a gap of {size} in the pool's reserve would have held {asked}, but was not used: it may belong to another "
    "stream, or to segments for other sizes.": (
        "原因未知: 内存池预留中 {size} 的空隙本可容纳{asked}, 但未被使用: 它可能属于另一个流, 或属于其他大小的段。"
    ),
    "The cause is unknown: {size} of {subject} were reported free, and {call} refused {asked}: another user whom that figure leaves "
    "out may have had it, or a quota forbids it.": (
        "原因未知: 报告{subject}空闲 {size}, 而 {call} 拒绝了{asked}: 可能被该数字未计入的其他使用者占用, 或受配额限制。"
    ),
    "The cause is unknown: {asked} failed with {size} in use by the pools, and nothing says how much the device had.": (
        "原因未知: 内存池使用 {size} 时{asked} 失败, 没有信息说明设备有多少内存。"
    ),
    "Memory of another stream: a gap of {size} in the pool's reserve would have held {asked}, but was not used: gaps serve the "
    "stream, or the private pool, that has them alone.": (
        "另一个流的内存: 内存池预留中 {size} 的空隙本可容纳{asked}, 但未被使用: 空隙只供拥有它的流或私有池使用。"
    ),
    "Reserved by the pool: it held {size} for {other} in use, and {asked} came from outside of it, with {growth} free on the device.": (
        "内存池的预留: 它持有 {size} 而使用 {other}, {asked} 来自池外, 设备空闲 {growth} 。"
    ),
    "Call empty_cache() before the request: cached memory goes back to the driver. No request from outside of the pool makes it do "
    "that.": "在该请求之前调用 empty_cache(): 池缓存的内存归还驱动, 池外的请求不会使它这样做。",
    "Room that was not looked for: a free block of {size} would have held {asked}. It came free while the allocator made room, and "
    "its pool is not searched again then: a known defect of torch's caching allocators (pytorch issue 189504).": (
        "没有再查找的空间: {size} 的空闲块本可容纳{asked}。它在分配器腾出空间时变为空闲, 而此后不再查找所在的池: "
        "这是 torch 缓存分配器的已知缺陷 (PyTorch #189504)。"
    ),
    "Synchronize with the streams that use large blocks before more are asked for, or catch the error and ask again: the room is "
    "there.": "在请求更多大块之前与使用大块的流同步, 或捕获错误后再次请求: 空间是有的。",
    "allocator: {size} with rounding[ and {number} B of padding] in the small pool of {subject}: {said}": (
        "分配器: 取整后 {size}[ (含 {number} B 填充)], 取自{subject}的小块池: {said}"
    ),
    "allocator: {size} with rounding[ and {number} B of padding] in the large pool of {subject}: {said}": (
        "分配器: 取整后 {size}[ (含 {number} B 填充)], 取自{subject}的大块池: {said}"
    ),
    "allocator: the small pool of {subject}: {said}": "分配器: {subject}的小块池: {said}",
    "allocator: the large pool of {subject}: {said}": "分配器: {subject}的大块池: {said}",
    "its stream": "该流",
    "all streams": "所有流",
    "nothing free there": "其中没有空闲",
    "{size} free in {count} segment[s], the largest block {other}": "{count} 个段中空闲 {size}, 最大的块为 {other}",
    "free in segments of the other pool or of other streams: {size}": "属于另一个池或其他流的段中空闲 {size}",
    "right before it gave up: {parts}": "放弃之前: {parts}",
    "{count} freed block[s] ({size}) came back to the pool": "{count} 个已释放的块 ({size}) 回到池中",
    "{count} segment[s] ({size}) went back to the driver": "{count} 个段 ({size}) 归还驱动",
    "no segment without a block could go back to the driver": "没有可归还驱动的空段",
    "pinned: {size} free of a segment of {other}, by a block of {growth}[ at {site}] (freed later)": (
        "钉住: {other} 的段中空闲 {size}, 被 {growth} 的块占住[, 位于 {site}] (之后释放)"
    ),
    "pinned: {size} free of a segment of {other}, by a block of {growth}[ at {site}] (not freed)": (
        "钉住: {other} 的段中空闲 {size}, 被 {growth} 的块占住[, 位于 {site}] (未释放)"
    ),
    "Pinned host memory: {size} of the host were pinned, and {call} refused {asked}.": (
        "锁页主机内存: 主机有 {size} 被锁页, {call} 拒绝了{asked}。"
    ),
    "Set {name}: replayed with it, the request is served. {said}": "设置 {name}: 用它重放时该请求得到满足。{said}",
    "Set {name}. {said}": "设置 {name}。{said}",
    "No setting of the allocator that was replayed closes the gaps. {said}": "重放过的分配器设置都不能消除空隙。{said}",
    "Allocate what lives long before what lives short, so that it pins no segments.": "先分配长期存活的内存, 再分配短期的, 以免钉住段。",
    "Allocate large buffers on one stream, and use record_stream().": "在同一个流上分配大缓冲区, 并使用 record_stream()。",
    "Look with {command} who uses the device: another process, or a library in this one.": "用 {command} 查看谁在使用设备: 另一个进程, 或本进程中的库。",
    "Look with {command} who uses the device, and end it or choose another device.": "用 {command} 查看谁在使用设备, 结束它或换一个设备。",
    "Record with memory of the driver ({name}) and look at what is missing below.": "连同驱动内存一起记录 ({name}), 并查看下面缺少的内容。",
    "Compare with {command} while the program runs; look whether streams keep memory of their own, and whether a quota of a "
    "container or virtual device is smaller than the device.": (
        "程序运行时与 {command} 对照; 查看各个流是否保留了自己的内存, 以及容器或虚拟设备的配额是否小于设备。"
    ),
    # --- watched memory
    "{subject} was written by {call}, which may write it[ ({who})]": "{subject} 被 {call} 写入, 它可以写这块内存[ ({who})]",
    "{subject} was written {count} times, last by {call}, which may write it[ ({who})]": (
        "{subject} 被写入 {count} 次, 最后一次由 {call} 写入, 它可以写这块内存[ ({who})]"
    ),
    "{subject} was written by {call} beside what that may write, such as in its padding: {bytes}": (
        "{subject} 被 {call} 写在它可写的范围之外, 例如填充处: {bytes}"
    ),
    "{subject} changed during {call}, which may or may not write there: {bytes}": (
        "{subject} 在 {call} 期间改变, 它是否可以写那里并不清楚: {bytes}"
    ),
    "{subject} changed at some time from {call} on, and was found changed during {who}: {bytes}": (
        "{subject} 从 {call} 起的某个时刻改变, 在 {who} 期间被发现: {bytes}"
    ),
    "{subject} changed at some time from {call} on, and was found changed before {who}: {bytes}": (
        "{subject} 从 {call} 起的某个时刻改变, 在 {who} 之前被发现: {bytes}"
    ),
    "{subject} changed during {call}, which does not list it among its outputs: {bytes}": (
        "{subject} 在 {call} 期间改变, 而它不在其输出之列: {bytes}"
    ),
    "{subject} changed outside of any operator, before {call}: {bytes}": "{subject} 在任何算子之外、{call} 之前改变: {bytes}",
    "{subject} changed outside of any operator, after {call}: {bytes}": "{subject} 在任何算子之外、{call} 之后改变: {bytes}",
    "{subject} changed outside of any operator, between {call} and {who}: {bytes}": (
        "{subject} 在任何算子之外、{call} 与 {who} 之间改变: {bytes}"
    ),
    "{subject} changed outside of any kernel, before {call}: {bytes}": "{subject} 在任何 kernel 之外、{call} 之前改变: {bytes}",
    "{subject} changed outside of any kernel, after {call}: {bytes}": "{subject} 在任何 kernel 之外、{call} 之后改变: {bytes}",
    "{subject} changed outside of any kernel, between {call} and {who}: {bytes}": (
        "{subject} 在任何 kernel 之外、{call} 与 {who} 之间改变: {bytes}"
    ),
    "{name} (call {first})": "{name} (第 {first} 次调用)",
    "an unknown operator": "未知算子",
    "tensor `{name}` ({size} on {device})": "张量 `{name}` ({device} 上 {size})",
    "output {count} of {name} ({size} on {device})": "{name} 的输出 {count} ({device} 上 {size})",
    "memory `{name}` ({size} on {device})": "内存 `{name}` ({device} 上 {size})",
    "block[ of {name}] ({size} on {device}, {address}[, allocated at {site}])": (
        "[{name} 的]内存块 ({device} 上 {size}, {address}[, 分配于 {site}])"
    ),
    "block[ of {name}] ({size}, {address}[, allocated at {site}])": "[{name} 的]内存块 ({size}, {address}[, 分配于 {site}])",
    "bytes {ranges}[ and more, up to {last}][ (known to {size})][; likely it ran over the end of what it writes, the {subject} right "
    "before][; the same write reached {more} more block[s] behind it][; {count} other operator[s] ran at that time][ ({who})]": (
        "字节 {ranges}[ 等, 至 {last}][ (精确到 {size})][; 很可能越过了它所写内存的末尾, 即紧挨在前的{subject}]"
        "[; 同一次写还波及其后 {more} 个内存块][; 当时还有 {count} 个算子在运行][ ({who})]"
    ),
    # --- source lines
    "The file has {count} lines now, and no line {first}.": "该文件现在有 {count} 行, 没有第 {first} 行。",
    "The source could not be read where this report was written: {reason}.": "在生成本报告的机器上无法读取源码: {reason}。",
    # --- pictures
    "({count} more owners)": "(另外 {count} 个归属)",
    "({count} more stacks)": "(另外 {count} 个调用栈)",
    "({count} smaller)": "({count} 个较小的)",
    "({count} frames)": "({count} 帧)",
    "{count} more pools of memory have no picture here": "另外 {count} 个内存池没有图",
    # --- what is left out
    "{subject} were not recorded ({name} records them)": "没有记录{subject} ({name} 会记录)",
    "this dump has no {subject} ({name} records them)": "此转储没有{subject} ({name} 会记录)",
    "a {name} has no {subject}": "{name} 没有{subject}",
    "no {subject} were recorded": "没有记录到{subject}",
    "{name} was not observed: {reason}": "{name} 未被观察: {reason}",
    "only step[s] {numbers} w[as][ere] collected (--steps)": "只采集了第 {numbers} 步 (--steps)",
    "step {first} did not end": "第 {first} 步没有结束",
    "no step ended, --steps={numbers} did not happen": "没有步结束, --steps={numbers} 没有发生",
    "step[s] 1[ to {last}] ended, --steps={numbers} did not happen": "第 1[ 至 {last}] 步已结束, --steps={numbers} 没有发生",
    "{subject} were recorded for a part of the run only: the program changed --events": "只在运行的一部分中记录了{subject}: 程序改变了 --events",
    "{name} w[as][ere] used, which {option} leaves out": "使用了 {name}, 而 {option} 不包含它",
    "how much of {device} was in use: neither a snapshot of the failure nor the management interface says": (
        "{device} 使用了多少: 失败时的快照和管理接口都没有说明"
    ),
    "what the pools held of {device}: fragmentation is not distinguished from other causes": "内存池持有 {device} 的多少内存: 无法区分碎片与其他原因",
    "what this process held of {device}: other processes are not distinguished from it": "本进程持有 {device} 的多少内存: 无法区分其他进程",
    "memory of the driver of {device}: it was not observed, growth outside the framework is not seen": (
        "{device} 的驱动内存: 未被观察, 看不到框架之外的增长"
    ),
    "fragmentation: {size} in use on {device} lie in no known block of the driver: older blocks, or physical "
    "memory that is mapped elsewhere (expandable segments)": (
        "碎片: {device} 上使用中的 {size} 不在任何已知的驱动内存块中: 它们早于记录, 或是映射到别处的物理内存 (expandable segments)"
    ),
    "{count} events were recycled to keep the log small; blocks still alive were kept": "为使日志较小, {count} 个事件被回收; 仍存活的内存块已保留",
    "{count} events were lost": "丢失了 {count} 个事件",
    "{count} access[es] name[s] no known block: left out": "{count} 次访问没有对应已知内存块: 已略去",
    "{subject}: not judged, there are too few steps and {count} allocations; without steps, at least {more} are needed": (
        "{subject}: 未判断, 步数太少, 且只有 {count} 次分配; 没有步时至少需要 {more} 次"
    ),
    "{subject}: not judged, {name} step[s] ha[s][ve] ended, at least {more} are needed": "{subject}: 未判断, 结束了 {name} 步, 至少需要 {more} 步",
    "no memory of {device} was recorded": "没有记录 {device} 的内存",
    "the kind of its devices is not in the snapshot: they are taken for devices of {name}": "快照中没有设备类型: 视为 {name} 的设备",
    "{count} block[s][ or segment][ and segments] [is][are] older than the history: when [it was][they were] allocated is not known": (
        "{count} 个内存块或段早于历史: 不知道何时分配"
    ),
    "sizes of freed blocks are estimates: a history has requested sizes, and {count} of the blocks alive are not as large as the "
    "allocator's defaults would make them": (
        "已释放内存块的大小是估计值: 历史只有请求的大小, 而存活的内存块中有 {count} 个大于或小于分配器默认设置下的大小"
    ),
    "rows with an ID that another row had before: {count}, left out": "{count} 行的 ID 已被前面的行使用: 已略去",
    "{count} blocks were alive at the end: the FREE rows that the tool wrote for them are not counted": (
        "结束时有 {count} 个内存块存活: 工具为它们写的 FREE 行不计入"
    ),
    "left out: {reason}": "已略去: {reason}",
    "{name} was not written, {reason}": "未写入 {name}: {reason}",
    "{subject}: not judged, {sentences}": "{subject}: 未判断, {sentences}",
}
