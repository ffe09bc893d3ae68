"""The page in Chinese: its own words, and headings and other whole texts of results."""

from __future__ import annotations

from typing import Final

CHINESE: Final = {
    "language": "zh-CN",
    "title": "内存报告",
    "skip": "跳到问题列表",
    "theme": "配色",
    "theme_auto": "跟随系统",
    "theme_light": "浅色",
    "theme_dark": "深色",
    "contents": "目录",
    "in_short": "摘要",
    "findings": "发现的问题",
    "next": "下一步:",
    "in_tables": "见表格:",
    "source_of": "{site} 的源码",
    "source_of_holder": "{site} 的源码, 它持有这些内存",
    "no_source": "没有对应的源码行。",
    "full_stack": "完整调用栈 ({n} 帧)",
    "native_stack": "原生调用栈 ({n} 帧)",
    "more_frames": "还有 {n} 帧",
    "other_sites": "此问题的另外 {n} 个调用点",
    "more_sites": "还有 {n} 个调用点不在本报告中, msmemscope analyze 会全部列出。",
    "call_site_unknown": "(调用点未知)",
    "memory_over_time": "内存随时间的变化",
    "chart_help": "将鼠标移到图上, 或选中图后使用方向键; Home 和 End 跳到两端, p 跳到峰值。竖线是步的开始, 放不下的不画。",
    "in_use": "使用中",
    "least": "附近最小值",
    "reserved": "预留",
    "time": "时间",
    "event": "事件",
    "step": "步",
    "mark": "标记",
    "failed": "分配失败",
    "peak": "峰值",
    "owners_at_peak": "峰值时的归属",
    "lines_at_peak": "峰值时的调用点",
    "by_stack": "按调用栈",
    "tree_peak": "峰值时使用中",
    "tree_leaked": "已泄漏",
    "tree_help": "单击或按 Enter 放大, Escape 缩小, 方向键在调用栈中移动。",
    "zoom_out": "显示全部",
    "share": "占 {whole} 的 {percent}",
    "blocks": "{n} 个内存块",
    "block": "1 个内存块",
    "show_all": "显示全部 {n} 行",
    "show_fewer": "显示较少",
    "more_rows": "还有 {n} 行不在本报告中, msmemscope analyze 有全部内容。",
    "sort_by": "按 {column} 排序",
    "more_marks": "还有 {n} 个标记没有画出。",
    "more_failures": "更早的 {n} 次分配失败没有画出。",
    "not_answered": "没有答案:",
    "limits": "本报告未包含的内容",
    "nothing_here": "无。",
    "processes_more": "另外 {n} 个进程没有单独的章节, 指定它们的目录即可查看。",
    "made_by": "由 msmemscope {version} 根据 {source} 生成。",
    "no_script": "本页面用自带的脚本显示数据, 但脚本在此处不允许运行。",
}
"""By their use, as in `words`."""

CHINESE_TEXTS: Final = {
    "Leaks": "泄漏",
    "Inefficient memory": "低效内存",
    "Peak": "峰值",
    "Failed allocations": "分配失败",
    "Watched memory": "被监视的内存",
    "Leaks by call site": "各调用点的泄漏",
    "Growth outside of steps": "步之外的增长",
    "A phase of the program left this memory, and it is still in use at the end.": "这些内存由程序的某一阶段留下, 到结束时仍在使用。",
    "when": "何时",
    "cycle": "循环引用",
    "Waiting for the garbage collector": "等待垃圾回收的内存",
    "Break the cycle, for example with a weak reference, or call gc.collect() where such an object has done its work.": (
        "打破循环引用, 例如使用弱引用; 或者在此类对象用完之处调用 gc.collect()。"
    ),
    "before the first step has ended": "第一步结束之前",
    "after the last step": "最后一步之后",
    "Host memory": "主机内存",
    "The resident host memory of a process, by part.": "进程的常驻主机内存, 按部分。",
    "no figure of host memory was recorded; steps and samples (--host=sampled) bring them": (
        "没有记录到主机内存的数字; 它们来自步和采样 (--host=sampled)"
    ),
    "mapped files and shared memory were not looked at (--host=off)": "没有查看文件映射和共享内存 (--host=off)",
    "Python objects": "Python 对象",
    "NumPy arrays": "NumPy 数组",
    "threads": "线程",
    "native memory": "本地内存",
    "Host memory outside of tensors at its peak, by line": "峰值时张量之外的主机内存, 按源码行",
    "All parts add up to the resident memory. Samples estimate the parts that have an error.": (
        "所有部分之和等于常驻内存。有误差的部分由采样估计。"
    ),
    "Containers that go on to grow": "仍在增长的容器",
    "grown by": "增长",
    "entries": "条目数",
    "new entries": "新增条目数",
    "type": "类型",
    "type of its entries": "条目类型",
    "container": "容器",
    "Remove entries when they are done with, or give the container a bound.": "条目用完后请删除, 或给容器设上限。",
    "Keep less there, or clear it now and then. Add cpu to --device: then each of these tensors is recorded, with its holder.": (
        "请在该处少保留一些, 或定期清空。将 cpu 加入 --device: 这样会逐一记录这些张量及其持有者。"
    ),
    "Remove its entries when they are done with, or give it a bound: so far it only grows.": (
        "条目用完后请删除, 或给它设上限: 目前它只增不减。"
    ),
    "Keep such data as one array, tensor or buffer of bytes: forked processes go on to share it.": (
        "请把这类数据保存为一个数组、张量或字节缓冲区: 派生出的进程会继续共享它。"
    ),
    "remedy": "建议",
    "Keep less there, or clear it now and then: what that line makes only adds up.": (
        "请减少该行保留的内容, 或不时清理: 它产生的内存只增不减。"
    ),
    "Let such threads end and join them, or take them from a pool of a fixed size: each keeps its stack.": (
        "请让这些线程结束并回收, 或使用固定大小的线程池: 每个线程都占用自己的栈。"
    ),
    "Close each segment and unlink it when it is done with: until then all of it stays in memory.": (
        "每个共享内存段用完后请关闭并删除: 否则它会一直留在内存中。"
    ),
    "Call malloc_trim(0) of the C library now and then: it gives whole pages back. If many threads take memory, MALLOC_ARENA_MAX=2 can "
    "do, too.": "请不时调用 C 库的 malloc_trim(0), 它会归还整页内存。若有许多线程申请内存, 也可设置 MALLOC_ARENA_MAX=2。",
    "Instead of record_stream, let the stream that allocates wait for the one that uses the block (wait_stream, or an event) before the "
    "last reference goes. Or keep fewer in flight.": (
        "请不要使用 record_stream, 而是让申请内存的流在最后一个引用消失之前等待使用该内存块的流 (wait_stream 或 event); 或减少同时在途的内存块。"
    ),
    "Allocate on the stream that uses the memory later, or use one stream for both.": (
        "请在之后使用该内存的流上申请, 或两者使用同一个流。"
    ),
    "Call empty_cache() once behind the set-up: replayed with it, the memory is given back. Allocate on the stream that uses the memory "
    "later, or use one stream for both.": (
        "请在初始化之后调用一次 empty_cache(): 重放表明这样会归还内存。请在之后使用该内存的流上申请, 或两者使用同一个流。"
    ),
    "part": "部分",
    "at the peak": "峰值时",
    "at the end": "结束时",
    "error": "误差",
    "samples": "样本数",
    "memory": "内存",
    "CPU tensors": "CPU 张量",
    "pinned memory": "锁页内存",
    "unknown, and memory of the emulated device": "未知, 以及模拟设备的内存",
    "allocated before the log began": "日志开始之前的分配",
    "interpreter and libraries, before work began": "解释器与库, 程序自身工作之前",
    "freed, and kept by the C library": "已释放, 仍被 C 库保留",
    "mapped files": "文件映射",
    "shared memory": "共享内存",
    "Reserved memory": "预留内存",
    "Memory that is reserved and idle: for other streams, until other streams have got so far, by rounding.": (
        "已预留却闲置的内存: 留给其他流的, 等待其他流用完的, 因取整而多出的。"
    ),
    "Memory that is reserved and idle": "已预留却闲置的内存",
    "cached for another stream": "为另一个流缓存",
    "freed, and waiting for another stream": "已释放, 等待另一个流",
    "rounded up": "向上取整",
    "cached in sizes that fit nothing later": "缓存的大小不再适合后来的请求",
    "reserved": "预留",
    "idle": "闲置",
    "cause": "原因",
    "Call sites that grow from step to step": "逐步增长的调用点",
    "Call sites that grow from part to part": "逐段增长的调用点",
    "Kept, and not growing": "保留且不增长",
    "Alive, and expected to be freed": "仍在使用, 预计会释放",
    "Long-lived, freed later": "长期存活, 之后释放",
    "Saved by fixing all of it": "全部修复后节省的内存",
    "Inefficient memory by call site": "各调用点的低效内存",
    "Inefficient blocks": "低效内存块",
    "In use at the peak, by call site": "峰值时使用中, 按调用点",
    "Allocated last before the peak": "峰值前最后分配的内存",
    "Failed allocations, the latest first": "分配失败, 最近的在前",
    "Largest blocks alive when memory ran out": "内存耗尽时最大的内存块",
    "Changes of watched memory": "被监视内存的变化",
    "At the peak, by owner": "峰值时, 按归属",
    "At the peak, by operator": "峰值时, 按算子",
    "At the peak, by line": "峰值时, 按源码行",
    "size": "大小",
    "bytes": "字节",
    "bytes, all together": "字节, 合计",
    "saved by fixing all of it": "全部修复可节省",
    "saved by fixing all of it, all together": "全部修复可节省, 合计",
    "blocks": "内存块数",
    "pool": "内存池",
    "device": "设备",
    "call site": "调用点",
    "line": "源码行",
    "owner": "归属",
    "operator": "算子",
    "operators": "算子",
    "kind": "类型",
    "leaked": "泄漏",
    "per step": "每步",
    "per part": "每段",
    "parts": "段",
    "steps": "步",
    "step": "步",
    "steps with a leak": "有泄漏的步数",
    "steps judged": "判断的步数",
    "confidence": "可信度",
    "peak without it": "没有它时的峰值",
    "held by": "被谁持有",
    "at first": "开始时",
    "at last": "结束时",
    "first step": "第一步",
    "last step": "最后一步",
    "first part": "第一段",
    "last part": "最后一段",
    "alive": "存活",
    "by chance": "偶然概率",
    "peak": "峰值",
    "peak if fixed": "修复后的峰值",
    "saved": "节省",
    "saved at the peak": "峰值时节省",
    "operators wasted": "浪费的算子数",
    "from operator": "从算子",
    "to operator": "到算子",
    "in use": "使用中",
    "share": "占比",
    "largest": "最大",
    "off the peak": "可降低峰值",
    "step of the oldest": "最早一块的步",
    "asked for": "请求大小",
    "attempts": "尝试次数",
    "why": "原因",
    "size of one": "单块大小",
    "verdict": "结论",
    "changed": "改变的字节",
    "name": "名称",
    "what happened": "发生了什么",
    "what is known": "已知情况",
    "below": "以下内容",
    "worst block": "最差的内存块",
    "it alone saves": "仅它可节省",
    "bytes that differ": "不同的字节",
    "memory of": "内存属于",
    # --- what questions ask, and what columns mean
    "Memory that is allocated and never given back: over the steps of the program, or between marks of it.": "分配后从未归还的内存: 在程序的各步之间, 或在标记之间。",
    "Memory that is held while nobody needs it.": "被持有但无人需要的内存。",
    "Memory at its peak, or when an allocation failed: what filled it, and what could be saved.": "峰值时或分配失败时是什么占满了内存, 以及可以节省什么。",
    "Allocations that failed for lack of memory, and what was alive then.": "因内存不足而失败的分配, 以及当时存活的内存。",
    "Changes of watched memory: which operator made them, which bytes, and whether it may.": "是什么改变了被监视的内存: 哪个算子, 哪些字节, 是否允许。",
    "Their call sites have allocated nothing more in the last steps.": "它们的调用点在最后几步中没有再分配。",
    "Their call sites have freed blocks as old as these.": "它们的调用点释放过同样久的内存块。",
    "Withdrawn from the leaks.": "已从泄漏中撤回。",
    "Confidence: high if a call site leaked in 4 steps in a row or 8 in all, medium in 2 or more, low in one.": (
        "可信度: 调用点连续 4 步或共 8 步泄漏为高, 2 步以上为中, 1 步为低。"
    ),
    "Off the peak: by how much it would be lower if the call site had allocated nothing. Where an allocation failed, that moment takes "
    "the place of the peak.": "可降低峰值: 如果该调用点没有分配, 峰值会低多少。有分配失败时, 以该时刻代替峰值。",
    "Saved at the peak: by how much it would be lower if the findings of the call site were fixed.": (
        "峰值处节省: 修复该调用点的发现之后, 峰值会降低多少。"
    ),
    "high": "高",
    "medium": "中",
    "low": "低",
    "early_allocation": "过早分配",
    "late_deallocation": "过晚释放",
    "temporary_idleness": "暂时闲置",
    "early allocation": "过早分配",
    "late deallocation": "过晚释放",
    "temporary idleness": "暂时闲置",
    "unexpected": "意外",
    "unknown": "未知",
    "legitimate": "正当",
    "autograd graph": "自动求导图",
    "HOST, pinned": "HOST, 锁页",
    "(others)": "(其他)",
    "(outside operators)": "(算子之外)",
    "in use at the peak": "峰值时使用中",
    # --- what was not found
    "no growth over the run": "运行中没有增长",
    "no inefficient memory worth fixing": "没有值得修复的低效内存",
    "no unexpected change of watched memory": "被监视的内存没有意外的改变",
    "no idle reserve": "没有闲置的预留",
    "no steady growth of host memory": "主机内存没有持续增长",
    "no failed allocation": "没有分配失败",
    "nothing found": "未发现问题",
    "nothing was judged": "没有可判断的内容",
    "Inefficient memory: none": "低效内存: 无",
    "Watched memory: no unexpected change": "被监视的内存: 没有意外的改变",
    "Watched memory: not overwritten": "被监视的内存: 未被改写",
    "No allocation failed for lack of memory": "没有因内存不足而失败的分配",
    # --- why memory ran out, and what to do
    "leak": "泄漏",
    "KV cache": "KV 缓存",
    "bounded container": "有上限的容器",
    "batch jump": "批次突增",
    "more blocks than before": "内存块比之前多",
    "Something outside of Python keeps it: torch.autocast keeps converted weights until its context ends (cache_enabled=False), and "
    "libraries have caches of their own.": (
        "Python 之外的代码持有它: torch.autocast 在其上下文结束之前保留转换后的权重 (cache_enabled=False), 库也有自己的缓存。"
    ),
    "The batch is not larger. Look for layers that were unfrozen, recomputation or torch.no_grad() that is off, a longer loop, or a "
    "list that is filled.": "批次没有变大。请检查: 是否有层解除了冻结, 重计算或 torch.no_grad() 是否没有生效, 循环是否变长, 是否有列表不断加入张量。",
    "Look at the shape of this tensor: broadcasting, an outer product or one_hot() may make it that large. Compute it in parts, or "
    "call a function that does not make it, such as cdist() or scaled_dot_product_attention().": (
        "请检查这个张量的形状: 广播、外积或 one_hot() 可能使它变得这么大。请分块计算, 或使用不生成它的函数, 例如 cdist() 或 "
        "scaled_dot_product_attention()。"
    ),
    "kept by the program": "程序保留",
    "kept by an exception": "异常保留",
    "reference cycles": "循环引用",
    "second model": "第二个模型",
    "memory outside of the pool": "内存池之外的内存",
    "C++: no Python variable leads to it": "C++: 没有 Python 变量引用它",
    "optimizer state": "优化器状态",
    "checkpoint": "检查点",
    "workspace": "工作区",
    "model too large": "模型过大",
    "fragmentation by splitting": "切分造成的碎片",
    "fragmentation by pinning": "钉住造成的碎片",
    "memory of another stream": "另一个流的内存",
    "room that was not looked for": "没有再查找的空间",
    "reserved by the pool": "内存池的预留",
    "configured limit": "配置的上限",
    "other process": "其他进程",
    "growth outside the framework": "框架之外的增长",
    "pinned host memory": "锁页主机内存",
    "one large block": "一个很大的内存块",
    "real shortage": "真正不足",
    "tensors": "张量",
    "the pools": "内存池",
    "the machine": "机器",
    "the pool": "内存池",
    "the device": "设备",
    "the allocator": "分配器",
    "(no Python stack)": "(没有 Python 调用栈)",
    "(allocated before recording began)": "(记录开始前已分配)",
    "(no call site)": "(没有调用点)",
    ".": "。",
    "Release what the line keeps over steps: detach() or item() what is logged, bound lists and caches.": (
        "释放该行跨步保留的内容: 对记录的值使用 detach() 或 item(), 限制列表和缓存的长度。"
    ),
    "Let go of the graph: detach() or item() what is kept, and run what needs no backward pass under torch.no_grad().": (
        "释放计算图: 对保留的值使用 detach() 或 item(), 不需要反向传播的部分在 torch.no_grad() 下运行。"
    ),
    "Let go of the graph: detach() or item() what is kept, and run what needs no backward pass under torch.no_grad(). Where gradients "
    "of several batches are summed, call backward() for each.": (
        "释放计算图: 对保留的值使用 detach() 或 item(), 不需要反向传播的部分在 torch.no_grad() 下运行。"
        "如需累加多个批次的梯度, 对每个批次调用 backward()。"
    ),
    "Release what is collected: move it to the host (.cpu()), reduce it at once, or bound the container.": (
        "释放收集的内容: 移到主机 (.cpu()), 立即归约, 或限制容器的长度。"
    ),
    "Try again behind the except clause, not in it. Keep no reference to the exception: its traceback holds the variables of "
    "every function that it passed.": "在异常处理子句之后而不是其中重试, 并且不要保留异常的引用: 其回溯持有经过的每个函数的变量。",
    "Break the cycle (a weak reference instead), or call gc.collect() where one piece of work ends.": (
        "打破循环 (改用弱引用), 或在一段工作结束时调用 gc.collect()。"
    ),
    "Release the other model before this one is made (del, gc.collect()), or keep one of them on the host.": (
        "在创建此模型之前释放另一个模型 (`del`, gc.collect()), 或把其中一个留在主机。"
    ),
    "Bound the cache: a shorter context, fewer sequences at once, a paged or quantized cache. If cat() makes it longer, allocate it "
    "once: cat() needs the old and the new one at a time.": (
        "限制缓存: 更短的上下文, 更少的并发序列, 分页或量化的缓存。如果用 cat() 加长缓存, 请一次分配好: cat() 同时需要旧的和新的缓存。"
    ),
    "Lower the bound of the container, keep its entries on the host (.cpu()), or count a full one where the batch is chosen.": (
        "降低容器的上限, 把其中的元素放在主机 (.cpu()), 或在确定批次时把装满的容器计算在内。"
    ),
    "Lower the batch, or the length of its sequences, to what earlier steps had; or compute it in parts, whose gradients add up.": (
        "把批次或其序列长度降到之前各步的水平; 或分批计算, 梯度可以累加。"
    ),
    "Shard the optimizer's state over devices (ZeRO, FSDP), take an optimizer with less of it, or move it to the host.": (
        "将优化器状态切分到多个设备 (ZeRO, FSDP), 换用状态更少的优化器, 或移到主机。"
    ),
    "Copy the state to the host tensor by tensor (.cpu()) before anything else is done with it.": "先把状态逐个张量复制到主机 (.cpu()), 再做其他处理。",
    "Leave room for the workspace: fewer tensors in use at this operator, smaller operands, or empty_cache() before it.": (
        "为工作区留出空间: 减少此算子处使用的张量, 缩小操作数, 或先调用 empty_cache()。"
    ),
    "Split the model over devices, load it in a smaller type, or keep a part of it on the host.": "将模型切分到多个设备, 用更小的类型加载, 或把一部分留在主机。",
    "Reuse pinned buffers (a pool of fixed size, fewer prefetched batches), or raise the limit of the container.": (
        "复用锁页缓冲区 (固定大小的池, 更少的预取批次), 或提高容器的上限。"
    ),
    "Lower what is in use at this moment: look at the call sites with the largest share. A smaller batch, recomputed activations, or a "
    "model that is split over more devices help.": "降低此刻的使用量: 占比最大的调用点, 更小的批次, 重算激活值, 或将模型切分到更多设备。",
    "Look at the memory of the driver by module and call site. It may be buffers of collectives, workspaces, or blocks that the program "
    "takes from the runtime itself.": "按模块和调用点查看驱动内存: 集合通信的缓冲区, 工作区, 或程序直接向运行时申请并保留的内存块。",
    "Raise or remove the limit, or lower what is in use at this moment.": "提高或取消上限, 或降低此刻的使用量。",
    "Segments are expandable already: allocate what lives long before what lives short, so that fewer pieces are pinned.": (
        "段已经可扩展: 先分配长期存活的内存, 再分配短期的, 以减少被钉住的片段。"
    ),
    # --- source lines
    "This is no file of source text that a report may show.": "这不是报告可以显示的源码文件。",
    "This is no regular file, so it was not read.": "这不是普通文件, 因此没有读取。",
    "The file was changed after this run began: lines may have moved.": "该文件在运行开始后被修改过: 行可能已移动。",
    "No such file or directory": "没有那个文件或目录",
    "Permission denied": "权限不够",
    "not a path": "不是路径",
    # --- what is left out
    "allocations": "分配",
    "frees": "释放",
    "samples of host memory": "主机内存的采样",
    "accesses": "访问",
    "launches of kernels": "kernel 的启动",
    "call stacks": "调用栈",
    "owners": "归属",
    "failed allocations": "分配失败",
    "leaks": "泄漏",
    "slow leaks": "缓慢泄漏",
    "leaks over steps": "跨步泄漏",
    "growth": "增长",
    "inefficient memory": "低效内存",
    "with --steps only some of the steps were collected": "--steps 只采集了部分步",
    "collection waited for msmemscope.start(), which was never called": "采集等待 msmemscope.start(), 但它从未被调用",
    "--events= selects nothing": "--events= 没有选择任何内容",
    "collection was on for a part of the run only (msmemscope.start() and stop()): memory that came and went outside of it is not here": (
        "只在运行的一部分中采集 (msmemscope.start() 和 stop()): 在此之外分配并释放的内存不在这里"
    ),
    "leaks and failed allocations": "泄漏和分配失败",
    "no steps were seen (call msmemscope.step() after each)": "没有看到步 (在每一步之后调用 msmemscope.step())",
    "the analysis failed": "分析失败",
    "--analysis leaves them out (--analysis=leaks)": "--analysis 没有选择它 (--analysis=leaks)",
    "the program loaded no library of CANN (--device=cpu observes CPU tensors)": "程序没有加载 CANN 的库 (--device=cpu 可观察 CPU 张量)",
    "torch_npu had set up its memory pool before msmemscope was there (import msmemscope before the first NPU tensor)": (
        "torch_npu 在 msmemscope 之前已建立内存池 (请在第一个 NPU 张量之前导入 msmemscope)"
    ),
    "there are too few steps, and the program gives back too little to be a loop or a server": (
        "步数太少, 且程序归还得太少, 不像循环或服务器"
    ),
    "growth: not judged, there are too few steps, and the program gives back too little to be a loop or a server": (
        "增长: 未判断, 步数太少, 且程序归还得太少, 不像循环或服务器"
    ),
    "dumps do not have the changes of watched memory: give the capture folder": "转储没有被监视内存的改变: 请给出采集目录",
    "allocations failed, and only their snapshots are here (--analysis=oom writes the rest)": (
        "有分配失败, 但这里只有它们的快照 (--analysis=oom 会写出其余内容)"
    ),
    "fragmentation: memory of the driver was not observed, so segments are not known": "碎片: 未观察驱动内存, 因此不知道有哪些段",
    "ledger of the driver: its memory was not observed, so that what pools hold cannot be compared with it": (
        "驱动的账目: 未观察其内存, 因此无法与内存池持有的内存对照"
    ),
    "activations: counted among the memory of operators, because no accesses of operators were recorded "
    "(--events=alloc,free,access,launch)": "激活值: 计入算子的内存, 因为没有记录算子的访问 (--events=alloc,free,access,launch)",
    "steps: dumps have those of msmemscope.step() and mstx ranges alone, and this one has none; "
    "the event log also has those of optimizers and modules": (
        "步: 转储只有 msmemscope.step() 和 mstx 范围的步, 此转储一个也没有; 事件日志还有优化器和模块的步"
    ),
    "owners: this input names none (it was not recorded with --analysis=decompose): only pools are distinguished, and what "
    "operators allocated or used": (
        "归属: 此输入没有归属 (记录时没有 --analysis=decompose): 只区分内存池, 以及算子分配或使用的内存"
    ),
    "the process is still running: this is what it had recorded when it was read": "进程仍在运行: 这是读取时已记录的内容",
    "the process was still running: this is what it had recorded when it was archived": "进程当时仍在运行: 这是归档时已记录的内容",
    "no access names a known block": "没有访问对应已知的内存块",
    "times have a resolution of a microsecond: the file is of a tool that wrote microseconds": "时间的分辨率为微秒: 文件出自写微秒的工具",
    "memory of the caching allocator only: what the driver, libraries and other allocators hold is not in a snapshot": (
        "只有缓存分配器的内存: 快照中没有驱动、库和其他分配器持有的内存"
    ),
    "no history: it was not recorded (_record_memory_history), only what was alive is known": (
        "没有历史: 未记录 (_record_memory_history), 只知道存活的内存"
    ),
    "no times: only the order of events is known, and it is known per device": "没有时间: 只知道每个设备上事件的顺序",
}
"""Headings and other whole texts of results."""
