"""The words of the generated reference pages in Chinese: the heads of the pages, and the texts of options and questions."""

from __future__ import annotations

from generators.chinese_programs import TEXTS as _PROGRAMS

OPTIONS_HEAD = """\
# 选项

<!-- Generated from src/msmemscope/configuration/options.py by `make docs`; do not edit. -->

`msmemscope [options] program [arguments]` 观测一个程序；程序也可以是脚本，例如 `msmemscope [options] bash user.sh`。列表用逗号分隔，半角（`,`）或全角（`，`）
都可以。

选项写在程序之前，程序之后的内容都传给程序。只有三种形式例外（如果它们的值被接受）：

- `--watch=...`，值是算子的名称；
- `--analysis=...`；
- `--steps=...`，后面紧跟 `--level=kernel`（或 `op`）。

采用时会提示一行。如果程序认识该选项，则传给程序，也提示一行：选项的文本出现在脚本、`-m` 的包或旁边的 Python 文件中。在程序之前加上 `--`
时，全部内容都传给程序：`msmemscope [options] -- program [arguments]`。

`msmemscope -m package.train` 就是 `msmemscope python -m package.train`。`msmemscope run train.py` 会在脚本之前加上 `python`，
`msmemscope help VERB` 就是 `msmemscope VERB --help`。

不被接受的值在启动或写入任何内容之前就会被拒绝：消息给出选项、值以及接受什么，退出码为 2。

## 项目的选项

对一个项目的每次运行都有效的选项写在文件中：`msmemscope.toml`，或 `pyproject.toml` 的表 `[tool.msmemscope]`。

```toml
{example}```

- 键是下面的长选项，不带前面的短横线，对比两个结果的选项除外。`msmemscope.toml` 使用相同的键，外面没有表。
- 依次在当前目录及其各级父目录中查找该文件，直到第一个带有 `.git` 的目录、主目录或根目录。只有最近的一个生效；同一目录中有两个时，以 `msmemscope.toml` 为准。其他用户放在所有用户共用的目录
  （例如 `/tmp`）中的文件不会采用。
- 每个选项都以命令行为准。文件中打开的开关无法在命令行上关闭，只能用 `--no-project-file` 忽略整个文件。没有任何环境变量可以设置选项。
- 未知的键或不被接受的值，与命令行上一样被拒绝；消息给出文件和键。
- 只有 `msmemscope program` 读取它：子命令、`msmemscope.config()` 以及被观测的程序都不读取。使用 `--verbose` 或 `log-level = "info"` 时，会有一行说明采用了哪个文件。
"""

QUESTIONS_HEAD = """\
# 问题

<!-- Generated from src/msmemscope/questions.py by `make docs`; do not edit. -->

每个问题都可以针对任何输入提出：在命令行上、对 `Recording`，或按名称：

```python
{example}```

`msmemscope.analyze` 打印报告并返回结果；`Recording.ask` 既不打印也不写入。结果包含什么、有哪些输入，见 [analyses.md](analyses.md)。

每个问题都接受 `--json` 和 `--frames=N`：表格中的调用点带有程序调用栈的这么多帧。能够发现异常情况的问题还接受 `--fail-on-findings`；有多个进程时，最后给出在所有进程的每个调用点发现了什么
（JSON 中为 `merged`）。
"""

_SIZE = "a whole number of bytes, or one with the unit K, M, G or T (1K = 1024 bytes), such as 512M or 2G"
_CHINESE_SIZE = "字节数（整数），或带单位 K、M、G、T 的数（1K = 1024 字节），例如 512M 或 2G"

_TEXTS = _PROGRAMS | {
    # Words of both pages.
    "Accepted": "接受的值",
    "Default": "默认值",
    "Also written": "其他写法",
    "in Python": "Python 中",
    "default": "默认值",
    "on the command line": "命令行上",
    # Options.
    "What to collect": "采集什么",
    "What to do with it": "如何处理",
    "Watching memory: who overwrote it": "内存块监测：是谁改写了内存",
    "Comparing two results": "对比两个结果",
    "General": "通用",
    "The events to collect. alloc and free come together, and access brings both, as does allocator: what torch_npu's caching "
    "allocator says of itself (requested sizes, streams, segments). Empty: nothing.": (
        "要采集的事件。alloc 和 free 总是一起采集，access 会带上两者，allocator 也是：它是 torch_npu 的缓存分配器对自身的说明（请求的大小、stream、"
        "segment）。为空时什么都不采集。"
    ),
    "alloc, free, launch, access, traceback, allocator, separated by commas": "alloc、free、launch、access、traceback、allocator，用逗号分隔",
    "The subject of launch events: operators (0 or op) or kernels (1 or kernel).": (
        "launch 事件针对什么：算子（0 或 op），或 kernel（1 或 kernel）。"
    ),
    "0, op, 1, kernel, separated by commas": "0、op、1、kernel，用逗号分隔",
    "The devices to observe: all of a kind, one by its index, the memory of CPU tensors.": (
        "要观测的设备：某一类的全部、按编号指定的一个，或 CPU 张量的内存。"
    ),
    "cpu, npu, cuda, xpu, mps, or one of a kind: npu:{0..31}, separated by commas": (
        "cpu、npu、cuda、xpu、mps，或某一类中的一个：npu:{0..31}，用逗号分隔"
    ),
    "npu where CANN is set up (ASCEND_HOME_PATH or ASCEND_TOOLKIT_HOME), else cpu, and cuda where its driver is": (
        "已配置 CANN（ASCEND_HOME_PATH 或 ASCEND_TOOLKIT_HOME）时为 npu；否则为 cpu，有 CUDA 驱动时还包括 cuda"
    ),
    "Collect these steps only.": "只采集这些 step。",
    "at most 5 integers >= 1, separated by commas": "最多 5 个 >= 1 的整数，用逗号分隔",
    "all steps": "所有 step",
    "The call stacks to write into the dump files, and their depth. Empty: collect none at all.": (
        "要写入落盘文件的调用栈及其深度。为空时完全不采集调用栈。"
    ),
    "python[:depth], c[:depth], separated by commas; depth from 0 to 1000": (
        "python[:depth]、c[:depth]，用逗号分隔；depth 为 0 至 1000"
    ),
    "none written; depth 50 where no depth is given": "不写入；没有给出深度时为 50",
    "Collect from the start of the program, or from where it calls msmemscope.start().": (
        "从程序开始时采集，或从程序调用 msmemscope.start() 处开始采集。"
    ),
    "immediate or deferred": "immediate 或 deferred",
    "Keep at most so many bytes of events per process and drop the oldest ones, never the blocks still alive. 0: no limit.": (
        "每个进程最多保留这么多字节的事件，丢弃最旧的事件，仍然存活的内存块绝不丢弃。0 表示没有限制。"
    ),
    f"0, or at least 1M; {_SIZE}": f"0，或至少 1M；{_CHINESE_SIZE}",
    "Which allocations of host memory besides tensors are recorded, so that what grows has a line. sampled: one per "
    "512 KiB on average, or per so many bytes behind the colon. all: each one, for short runs. off: none, and no "
    "function of the C library is redirected.": (
        "记录张量以外的哪些主机内存分配，使增长的内存有对应的代码行。sampled：平均每 512 KiB 一次，或按冒号后的字节数。"
        "all：每一次，用于较短的运行。off：都不记录，也不重定向任何 C 库函数。"
    ),
    "sampled, sampled:SIZE (1KiB to 1GiB), all or off": "sampled、sampled:SIZE（1KiB 至 1GiB）、all 或 off",
    "The limit of a search for holders of leaked memory, in milliseconds of processor time. Where memory outlives "
    "steps, searches are made at step 4, at one twice as far and so on, and at the end. A program without steps is searched "
    "now and then while it runs. The last search may take four "
    "times as long. Names of the findings may take half as long again. The last look at containers that grow has the same limit. 0: none.": (
        "查找谁持有泄漏的内存最多可以用多长时间，以毫秒处理器时间计；当内存存活超过 step 时，在第 4 步、其后每次约两倍远的一步和结束时查找。没有 step 的程序在运行期间不时查找。最后一次最多可用四倍的时间。为找到的内容命名时，最多再用一半的时间。结束时对增长容器的检查也受此限制。0 表示不查找。"
    ),
    "a number from 0 to 600000": "0 至 600000 的数",
    "When the program has ended, in whatever way, also write each capture as one compact file to this place for all hosts. "
    "With --output on a disk of the host, a shared file system sees nothing else. Every verb reads the files.": (
        "程序无论以何种方式结束后，还把每个采集结果写成一个紧凑的文件，放到汇集所有主机结果的位置；当 --output 位于本机磁盘时，"
        "共享文件系统不会看到其他内容。所有子命令都能读取这些文件。"
    ),
    "a folder, file://, or with msmemscope[cluster] s3://, gs://, hdfs:// and what else fsspec has a file system for": (
        "文件夹、file://，或在安装 msmemscope[cluster] 后使用 s3://、gs://、hdfs:// 以及 fsspec 支持的其他文件系统"
    ),
    "nothing is gathered": "不汇集",
    "Keep the memory of each process, by owner and line, every so often beside its event log. msmemscope analyze "
    "history says what has grown over weeks, also where --max-size has dropped the events.": (
        "每隔一段时间在事件日志旁边按归属和源码行保存每个进程的内存。msmemscope analyze history 说明数周内什么在增长，"
        "即使 --max-size 已经丢弃了事件。"
    ),
    "1s to 30d: a number with s, min, h or d; or off": "1s 到 30d：带 s、min、h 或 d 的数；或 off",
    "1h with --max-size, off without it": "使用 --max-size 时为 1h，否则为 off",
    "Observe the processes of these ranks only; the others run as if msmemscope were not there. A process that does not "
    "find a rank in its environment when it starts is observed.": (
        "只观测这些 rank 的进程；其他进程的运行与没有 msmemscope 时一样。启动时环境中没有 rank 的进程会被观测。"
    ),
    "Record details once one of these holds where a step ends. A snapshot is taken, and the next steps have "
    "accesses, operators and both call stacks. That happens at most once an hour.": (
        "当 step 结束时其中一个条件成立，就记录细节：生成一份快照，其后的若干步记录访问、算子和两种调用栈。每小时最多一次。"
    ),
    "rss>SIZE or rss>90%, npu:0>SIZE or npu>90% (cuda likewise), growth>SIZE/h, step_time>2x, oom, SIGUSR1, SIGUSR2; "
    "separated by | or commas": (
        "rss>SIZE 或 rss>90%，npu:0>SIZE 或 npu>90%（cuda 相同），growth>SIZE/h，step_time>2x，oom，SIGUSR1，SIGUSR2；用 | 或逗号分隔"
    ),
    "The number of steps that details are recorded of when --trigger says so.": "--trigger 的条件成立后，记录细节的 step 数。",
    "a number from 1 to 1000000": "1 至 1000000 的数",
    "numbers from 0 and ranges of them (8-15), separated by commas": "从 0 开始的数及其范围（8-15），用逗号分隔",
    "all ranks": "所有 rank",
    "Observe a part of the ranks only. They are spread evenly, and are the same ones in jobs of every size. Rank 0 is "
    "among them. Those of --ranks are observed besides.": (
        "只观测一部分 rank，它们均匀分布，在任何规模的作业中都相同；rank 0 在其中。--ranks 中的 rank 也会被观测。"
    ),
    "K/N with 1 <= K <= N, N at most 1000000: 1/16": "K/N，1 <= K <= N，N 最大为 1000000：1/16",
    "The part of these processes in a job of several kinds: actor, rollout, data loader. Results name and group them by it.": (
        "当作业中有多种进程时，这些进程做什么，结果据此命名和分组：actor、rollout、data loader。"
    ),
    "at most 80 printable characters": "最多 80 个可打印字符",
    "what verl, Ray, vLLM or torchrun --role call it": "verl、Ray、vLLM 或 torchrun --role 给出的名称",
    "The analyses to run; each collects what it needs, and decompose looks for leaks too. Empty: none.": (
        "要运行的分析；每种分析会采集自己所需的内容，decompose 也会查找泄漏。为空时不分析。"
    ),
    "leaks, decompose, inefficient, oom[:{1..1000}], separated by commas": (
        "leaks、decompose、inefficient、oom[:{1..1000}]，用逗号分隔"
    ),
    "The format of the dump files; MindStudio Insight opens db.": "落盘文件的格式；MindStudio Insight 可以打开 db。",
    "csv or db": "csv 或 db",
    "The directory for all results; created if it is missing.": "所有结果的目录；不存在时会创建。",
    "a path of at most 4096 printable characters": "最多 4096 个可打印字符的路径",
    "Also write report.html when the program has ended: findings down to the source line, and memory over time.": (
        "程序结束后还写出 report.html：精确到源码行的问题，以及内存随时间的变化。"
    ),
    "The least important messages to print: info says what was observed and how, error leaves warnings out.": (
        "要打印的最低级别的消息：info 说明观测到了什么以及如何观测，error 不打印警告。"
    ),
    "debug, info, warn, error": "debug、info、warn、error",
    "Watch memory: the outputs of operator START from when it has run until operator END has, and what the program names "
    "with msmemscope.watcher.watch. Before and after every operator its checksum is written, or with full-content all of "
    "it; whatever changes it is recorded. auto: watch every live block instead, and find the operator that wrote where it "
    "may not.": (
        "监测内存：从算子 START 运行结束到算子 END 运行结束期间 START 的输出，以及程序用 msmemscope.watcher.watch 指定的内存。"
        "在每个算子前后写出校验和，使用 full-content 时写出全部内容；对它的任何改写都会记录。"
        "auto：改为监测每个存活的内存块，找出在不该写的位置写入的算子。"
    ),
    "[START[:OUTID],]END[,full-content], separated by commas, or auto; OUTID: a number from 0, or out0": (
        "[START[:OUTID],]END[,full-content]，用逗号分隔，或 auto；OUTID 为从 0 起的数，或 out0"
    ),
    "nothing is watched but what the program names itself": "只监测程序自己指定的内存",
    "How much memory --watch=auto looks at around one operator; live blocks take turns.": (
        "--watch=auto 在一个算子前后查看多少内存；存活的内存块轮流查看。"
    ),
    f"at least 3M; {_SIZE}": f"至少 3M；{_CHINESE_SIZE}",
    "How much watched memory a process may write into files; when it is reached, no more is written.": (
        "一个进程最多把多少被监测的内存写入文件；达到之后不再写入。"
    ),
    _SIZE: _CHINESE_SIZE,
    "The checksum of watched memory: a 64-bit hash, or the slower one of older tools, to compare with their files.": (
        "被监测内存的校验和：64 位哈希，或较早工具使用的、较慢的校验和，用于与它们的文件对比。"
    ),
    "hash64, crc64": "hash64、crc64",
    "Compare two results instead of running a program; --level says whether operators or kernels. The verb compare does "
    "the same and has more options.": (
        "对比两个结果，而不是运行程序；--level 指定对比算子还是 kernel。子命令 compare 的作用相同，选项更多。"
    ),
    "The two results to compare, the base first.": "要对比的两个结果，基准在前。",
    "two dump files or capture folders, separated by a comma; :step=N behind one takes a step of it": (
        "两个落盘文件或采集结果目录，用逗号分隔；后面加上 :step=N 表示取其中的一个 step"
    ),
    "Print errors only: --log-level=error.": "只打印错误，即 --log-level=error。",
    "Print what was observed too: --log-level=info.": "还打印观测到了什么，即 --log-level=info。",
    "Print everything: --log-level=debug.": "打印全部消息，即 --log-level=debug。",
    "Take no options from msmemscope.toml or pyproject.toml of the current folder or of its parents.": (
        "不采用当前目录及其父目录的 msmemscope.toml 或 pyproject.toml 中的选项。"
    ),
    "Show the verbs and the options that are used most.": "显示子命令和最常用的选项。",
    "Show every option, with what it accepts.": "显示所有选项及其可接受的取值。",
    "Show the version.": "显示版本。",
    # Questions.
    "Memory that is allocated and never given back: over the steps of the program, or between marks of it.": (
        "申请之后从未归还的内存：在程序的各个 step 之间，或在程序的打点之间。"
    ),
    "judge the range between the mstx marks A, B and C with this text": "判断文本为此的 mstx 打点 A、B、C 之间的范围",
    "which mark with this text is A, from 0": "文本为此的第几个打点是 A，从 0 起",
    "Memory that is held while nobody needs it.": "被占用而无人需要的内存。",
    f"smallest block: {_SIZE}": f"不报告更小的内存块：{_CHINESE_SIZE}",
    "early_allocation, late_deallocation, temporary_idleness, separated by commas; default: all": (
        "early_allocation、late_deallocation、temporary_idleness，用逗号分隔；默认为全部"
    ),
    "operators between two accesses above which a block is idle": "两次访问之间的算子超过此数时，内存块为闲置",
    "write inefficient_type into the dump, or the dumps of a capture": (
        "把 inefficient_type 写入落盘文件，或采集结果的各个落盘文件"
    ),
    "also look for unused, redundant and dead memory, and churn": "还查找未使用、重复和无用的内存，以及反复申请",
    "The resident host memory of a process, by part.": "进程的常驻主机内存，按部分。",
    "Memory by owner.": "内存由什么组成，按归属。",
    "The memory of a whole device: pools, modules, other processes, and what nothing explains.": (
        "整个设备的内存用在了哪里：内存池、模块、其他进程，以及无法解释的部分。"
    ),
    "Memory that is reserved and idle: for other streams, until other streams have got so far, by rounding.": (
        "已保留却闲置的内存：留给其他流的、等待其他流用完的、因取整而多出的。"
    ),
    "Memory that grows over hours and weeks, from the moments that were kept of a run.": (
        "数小时到数周内增长的内存，来自运行期间保存的时刻。"
    ),
    "Memory that stays in use while a program has put its device memory to sleep, and what of it grows with each sleep.": (
        "程序让设备内存休眠期间还有什么在使用，以及其中什么随每次休眠增长。"
    ),
    "about how many moments the table over time has": "随时间变化的表格大约有多少个时刻",
    "Memory at its peak, or when an allocation failed: what filled it, and what could be saved.": (
        "峰值时或分配失败时内存被什么占满，以及可以节省什么。"
    ),
    "cpu, npu:{id} or cuda:{id}; default: all that have memory": "cpu、npu:{id} 或 cuda:{id}；默认为有内存的所有设备",
    "explain the moment of this event, an ID of the dump, instead": "改为解释该事件的时刻（落盘文件中的 ID）",
    "The changes by each operator, or by each launch of a kernel.": "每个算子或 kernel 的每次下发改变了什么。",
    "write all rows to this new file": "把所有行写入这个新文件",
    "Allocations that failed for lack of memory, and what was alive then.": "因内存不足而失败的分配，以及当时存活的内存。",
    "operators, lines and blocks listed by name": "按名称列出的算子、源码行和内存块的数量",
    "failures that are described, the latest": "描述最近的多少次失败",
    "Call sites whose live memory grows over many steps, although blocks are freed.": (
        "虽然有内存块被释放，但存活内存在许多 step 中持续增长的调用点。"
    ),
    "accepted chance per call site": "每个调用点可接受的偶然概率",
    f"least growth: {_SIZE}": f"计入的增长：{_CHINESE_SIZE}",
    "Changes of watched memory: which operator made them, which bytes, and whether it may.": (
        "什么改写了被监测的内存：哪个算子、哪些字节，以及是否允许。"
    ),
}
"""By the English text. Generating the pages fails where one is missing, and where one is not used any more."""

_asked: set[str] = set()


def text(english: str) -> str:
    """Return a text of an option, a question or a program in Chinese; a value such as `warn` as it is."""
    _asked.add(english)
    return _TEXTS.get(english, english)


def missing() -> list[str]:
    """Return the texts that pages asked for, and that have no translation."""
    return sorted(english for english in _asked - _TEXTS.keys() if " " in english)


def unused() -> list[str]:
    """Return the texts that no page asked for."""
    return sorted(_TEXTS.keys() - _asked)
