"""docs/programs.md in Chinese: its head and end, and what the programs of the catalogue do."""

from __future__ import annotations

HEAD = """\
# 试过的程序

<!-- Generated from tests/battery/catalogue.py by `make docs`; do not edit. -->

程序在 msmemscope 之下的行为与没有它时相同。`make test` 用 {count} 个程序验证：每个程序都直接运行一次，再在工具之下使用几乎所有选项运行一次：所有事件、kernel、Python 和 C 调用栈、所有分析、
自动监测、数据库；使用 torch 的程序以默认选项在 CPU 上运行，每一类中有几个也在虚拟 NPU 上运行。`make test-nightly` 在每个位置运行每个程序，分别使用默认选项、几乎所有选项，以及
Python 函数轨迹。

对比的内容是退出码或使它结束的信号、stdout 上的全部内容，以及 stderr 上除工具自己的行之外的全部内容。程序会打印计算结果的每一位、子进程返回的内容以及在自身周围发现的内容，因此结果不同，输出
就不同。进程 ID、地址和日志行的时间不参与对比，无害的差异也不参与（见下文）。

不使用 torch 的程序，在 CPU 上通过 torch 分配器的替身申请内存，在虚拟 NPU 上通过 CANN 运行时申请。所需内容在机器上不存在的程序会跳过，测试会说明。
"""

DIFFERENCES = """
## 有什么不同

- 程序有自己的 dispatch mode，或 torch 只能在 Python 中分发算子时，从算子中抛出的异常在 traceback 中多一项：`msmemscope/capture/torch_operators.py`，以及 torch 的一项。异常的类型、文本和其他各项都相同。
- 有 dispatch mode（例如本工具的）时，torch.profiler 对一个算子计数两次：一次在 mode 之前，一次在它运行时。算子、时间和内存都相同。
- 算子要经过 Python 时（参数中有稀疏张量或自带 dispatch 的类的张量、监视了内存，或 torch 早于 2.4），传给它的一个数会两次变成 8 字节的 CPU 张量。其他内存的申请与释放和不用工具时相同，顺序也相同，CPU 和 NPU 都是如此。
- 带本地调用栈的 Memray tracker 会写出一行 `Memray WARNING: Correcting symbol for dlopen`，只要预加载的库有自己的 `dlopen` 就会这样。它的记录相同。
"""

TEXTS = {
    "Program": "程序", "What it does": "做什么", "With torch": "使用 torch", "Needs": "需要", "yes": "是",
    "Processes": "进程", "Threads": "线程", "Coroutines": "协程", "Signals": "信号", "Ends": "结束方式",
    "Surroundings": "运行环境", "Instruments": "调试与测量工具", "Allocators": "分配器",
    "13 processes, each forked by a parent in one of three ways: from its main thread, from another thread, by the system "
    "call without handlers": "13 个进程，父进程以三种方式之一 fork：从主线程、从另一个线程、用不带处理函数的系统调用",
    "exec again and again in one process, ten times": "在一个进程中反复 exec，十次",
    "exec with an empty environment": "以空的环境 exec",
    "exec with LD_PRELOAD changed": "改变 LD_PRELOAD 之后 exec",
    "clearenv, then fork and exec": "clearenv，然后 fork 和 exec",
    "fexecve of a descriptor that closes itself": "对一个自动关闭的描述符执行 fexecve",
    "posix_spawn, 20 times, every other one without environment": "posix_spawn 20 次，每隔一次不带环境",
    "clone with CLONE_VM and CLONE_VFORK on a stack of its own, then exec": "使用 CLONE_VM 和 CLONE_VFORK、在自己的栈上 clone，然后 exec",
    "system and popen": "system 和 popen",
    "exec of a program that does not exist, and going on": "exec 不存在的程序，然后继续",
    "2,000 threads that are alive together, with the smallest stacks (16 KiB)": "同时存活的 2,000 个线程，使用最小的栈（16 KiB）",
    "20 coroutines by makecontext and swapcontext, on stacks that end at unmapped memory": "用 makecontext 和 swapcontext 实现的 20 个协程，栈的末端是未映射的内存",
    "coroutines by assembly, whose outermost function returns to 0": "用汇编实现的协程，最外层函数返回到 0",
    "coroutines by assembly, whose outermost function returns to where nothing is": "用汇编实现的协程，最外层函数返回到没有任何内容的位置",
    "coroutines by assembly, whose outermost function returns into another one, whose frame is nowhere": "用汇编实现的协程，最外层函数返回到另一个函数中，而后者的帧不存在",
    "setitimer, a thousand times a second, with a handler that allocates": "setitimer，每秒一千次，处理函数会申请内存",
    "a system call interrupted by a signal, once": "系统调用被信号中断一次",
    "200 faults handled on an alternate stack, left by siglongjmp": "在备用栈上处理 200 次段错误，用 siglongjmp 离开",
    "a handler of SIGCHLD that reaps every child": "回收每个子进程的 SIGCHLD 处理函数",
    "all signals blocked everywhere, and one thread in sigwait": "所有线程都屏蔽全部信号，一个线程在 sigwait 中",
    "50 threads cancelled while they allocate": "50 个线程在申请内存时被取消",
    "main returns; handlers at exit and static destructors allocate, in their order": "main 返回；退出处理函数和静态析构函数依次申请内存",
    "quick_exit, with a handler": "quick_exit，带有处理函数",
    "a C++ exception that nobody catches": "没有被捕获的 C++ 异常",
    "C++ exceptions through 30 frames that free, in nine threads": "C++ 异常穿过 30 个会释放内存的帧，在九个线程中",
    "setjmp and longjmp out of functions that allocate": "用 setjmp 和 longjmp 跳出会申请内存的函数",
    "exit, called by another thread": "由另一个线程调用 exit",
    "the main thread ends before the others": "主线程先于其他线程结束",
    "main returns while eight threads allocate": "八个线程申请内存时 main 返回",
    "SIGTERM that nobody handles": "没有处理函数的 SIGTERM",
    "SIGSEGV that nobody handles": "没有处理函数的 SIGSEGV",
    "dlclose in a handler at exit": "在退出处理函数中 dlclose",
    "dlmopen: an allocator in a namespace of its own": "dlmopen：分配器在自己的命名空间中",
    "the current folder is removed": "当前目录被删除",
    "chroot into an empty folder": "chroot 到空目录",
    "rights given up: setgid, setuid": "放弃权限：setgid、setuid",
    "numbers of the next descriptors, and how many are open": "接下来的描述符编号，以及打开了多少个",
    "RLIMIT_NOFILE of 8, all of them used": "RLIMIT_NOFILE 为 8，并全部用完",
    "RLIMIT_AS one MiB above what is used": "RLIMIT_AS 比已使用的多 1 MiB",
    "RLIMIT_STACK of 128 KiB, then exec": "RLIMIT_STACK 为 128 KiB，然后 exec",
    "RLIMIT_NPROC of 0": "RLIMIT_NPROC 为 0",
    "seccomp: no file can be opened": "seccomp：不能打开任何文件",
    "seccomp, strict: read, write and exit only": "严格模式的 seccomp：只能 read、write 和 exit",
    "strict seccomp takes the clock away from a process, and any system call ends it. A program that allocates observed "
    "memory after that is ended": "严格模式的 seccomp 使进程无法读取时钟，任何系统调用都会结束进程：此后申请被观测内存的程序会被结束",
    "the command line overwritten, the process renamed": "命令行被覆盖，进程改名",
    "a daemon: a new session, descriptors closed, its parent gone": "守护进程：新的会话，描述符已关闭，父进程已退出",
    "run under gdb until a fault, with its backtrace of the program": "在 gdb 下运行到出错，带有程序的 backtrace",
    "a training run under gdb": "在 gdb 下运行训练",
    "a training started by coverage run": "由 coverage run 启动的训练",
    "a training started by memray run": "由 memray run 启动的训练",
    "a training started and sampled by py-spy": "由 py-spy 启动并采样的训练",
    "jemalloc preloaded: 200 threads": "预加载 jemalloc：200 个线程",
    "jemalloc preloaded: a training": "预加载 jemalloc：训练",
    "tcmalloc preloaded: 200 threads": "预加载 tcmalloc：200 个线程",
    "tcmalloc preloaded: a training": "预加载 tcmalloc：训练",
    "mimalloc preloaded: 200 threads": "预加载 mimalloc：200 个线程",
    "mimalloc preloaded: a training": "预加载 mimalloc：训练",
    "built with AddressSanitizer: images.c, chain": "用 AddressSanitizer 构建：images.c，chain",
    "built with AddressSanitizer: signals.c, children": "用 AddressSanitizer 构建：signals.c，children",
    "built with AddressSanitizer: ends.cpp, exceptions": "用 AddressSanitizer 构建：ends.cpp，exceptions",
    "descriptor 0 is closed from the start": "描述符 0 从一开始就是关闭的",
    "descriptor 1 is closed from the start": "描述符 1 从一开始就是关闭的",
    "descriptor 2 is closed from the start": "描述符 2 从一开始就是关闭的",
    "Two hundred threads that are alive together, each with its tensors": "同时存活的两百个线程，各有自己的张量",
    "Threads with the smallest stacks that Python allows for calls into torch": "线程使用 Python 允许的、足以调用 torch 的最小栈",
    "Backward passes through one model, each in a thread of its own, with hooks": "对同一个模型的多次反向传播，各在自己的线程中，带有钩子",
    "Tasks, threads and children of asyncio's loop": "asyncio 事件循环的任务、线程和子进程",
    "The same with uvloop": "同上，使用 uvloop",
    "Threads that the interpreter switches between every few instructions": "解释器每隔几条指令就切换的线程",
    "Children made by os.fork use the device first; then their parent does": "os.fork 的子进程先使用设备，然后父进程使用",
    "os.fork when tensors exist and operators ran already; the child uses what it inherited": "已有张量并运行过算子之后 os.fork；子进程使用继承的内容",
    "Three generations of children, and each of them trains": "三代子进程，每个都进行训练",
    "Threads that fork while others allocate": "一些线程 fork，同时其他线程申请内存",
    "torch.multiprocessing: tensors in shared memory, a worker that is forked": "torch.multiprocessing：共享内存中的张量，fork 的工作进程",
    "torch.multiprocessing: a worker that is spawned, and imports torch itself": "torch.multiprocessing：spawn 的工作进程，自己导入 torch",
    "torch.multiprocessing: a worker of a server that forks": "torch.multiprocessing：fork server 的工作进程",
    "Workers of a DataLoader that stay, and one that fails": "DataLoader 的常驻工作进程，以及一个失败的工作进程",
    "DistributedDataParallel in two processes: gloo, or HCCL": "两个进程的 DistributedDataParallel：gloo 或 HCCL",
    "Other programs, started in each of Python's ways": "用 Python 的各种方式启动其他程序",
    "os.execv in the middle, from another thread": "中途从另一个线程 os.execv",
    "Programs started when every variable was taken away, and when only LD_PRELOAD was changed": "清除所有变量之后启动的程序，以及只改变 LD_PRELOAD 之后启动的程序",
    "Greenlets that switch in the middle of C calls, so that pieces of the stack come and go under them": "在 C 调用中途切换的 greenlet，栈的各段在其下换入换出",
    "Gevent with everything patched: threads and pools are greenlets, sleeping switches": "全部打补丁的 gevent：线程和线程池都是 greenlet，睡眠即切换",
    "A timer that fires a thousand times a second into a handler that makes tensors, during training": "训练期间每秒触发一千次的定时器，处理函数会创建张量",
    "A handler of SIGCHLD that reaps children while tensors are made": "在创建张量的同时回收子进程的 SIGCHLD 处理函数",
    "Signals are blocked everywhere; a thread waits for them": "所有线程都屏蔽信号，一个线程等待信号",
    "Faulthandler's timer and its signal write the stacks of all threads between operators": "faulthandler 的定时器和信号在算子之间写出所有线程的调用栈",
    "SIGTERM in the middle of training; the program saves its state and ends by itself": "训练中途收到 SIGTERM；程序保存状态并自行结束",
    "SIGTERM in the middle of training; nobody handles it": "训练中途收到 SIGTERM；没有处理函数",
    "SIGINT: the traceback of a KeyboardInterrupt": "SIGINT：KeyboardInterrupt 的 traceback",
    "A crash with faulthandler on: its report names the same lines": "开启 faulthandler 时崩溃：它的报告给出相同的行",
    "Handlers at exit and finalizers with tensors, and a thread that never ends": "带有张量的退出处理函数和终结器，以及一个永不结束的线程",
    "os._exit with tensors alive": "仍有存活的张量时 os._exit",
    "sys.exit in a thread ends the thread alone; an uncaught exception of another is reported": "线程中的 sys.exit 只结束该线程；另一个线程未捕获的异常会被报告",
    "os.abort in the middle": "中途 os.abort",
    "An exception that nobody catches, out of an operator in a backward pass": "反向传播中从算子抛出的、未捕获的异常",
    "coverage: the lines and branches of a training that were reached": "coverage：训练中执行到的行和分支",
    "sys.settrace and threading.settrace: every line of a training, in two threads": "sys.settrace 和 threading.settrace：两个线程中训练的每一行",
    "sys.setprofile: the calls of the interpreter's own functions and of C functions that a training makes itself": "sys.setprofile：训练自己对解释器函数和 C 函数的调用",
    "torch.profiler: the operators that ran": "torch.profiler：运行过的算子",
    "Memray's tracker inside the program: a readable recording of the same training": "程序内部的 Memray tracker：同一训练的可读取的记录",
    "tracemalloc: where Python's own memory was allocated": "tracemalloc：Python 自己的内存在哪里申请",
    "py-spy attaches from outside and finds every thread in its own function": "py-spy 从外部附加，发现每个线程都在自己的函数中",
    "Interpreters beside the main one, which import and end between trainings of the main one": "主解释器之外的解释器，在主解释器的训练之间导入和结束",
    "The collector's callbacks, finalizers and weak references, with tensors in cycles": "垃圾回收器的回调、终结器和弱引用，张量在循环引用中",
    "The frames that a program finds when it looks at its own stack, out of a backward hook": "程序从反向传播的钩子中查看自己的栈时看到的帧",
    "Standard streams, paths and modules as a program finds them; modules of the tool are its own": "程序所见的标准流、路径和模块；工具的模块只属于工具自己",
}  # fmt: skip
"""By the English text of the catalogue."""
