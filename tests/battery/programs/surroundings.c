/* What a program changes or finds around itself: its folder, its limits, its descriptors, its user, its name. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <stddef.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "target.h"

/* More than the first piece of the log has room for, so that the log must grow after what was changed. */
enum { kMany = 4000 };

static long pairs_done;

static void pairs(long count) {
    for (long i = 0; i < count; i++) {
        void* const block = fake_tensor_allocate(size_of_block(i));
        if (block == NULL) {
            _exit(95);
        }
        fake_tensor_free(block);
    }
    pairs_done += count;
}

static void require(int done) {
    if (!done) {
        print_text("error=%d\n", errno);
        _exit(98);
    }
}

static void limit(int resource, rlim_t value) {
    const struct rlimit both = {value, value};
    require(setrlimit(resource, &both) == 0);
}

static void removed_folder(void) {
    char name[] = "/tmp/removed_XXXXXX";
    char found[64];
    require(mkdtemp(name) != NULL && chdir(name) == 0 && rmdir(name) == 0);
    pairs(kMany);
    print_text("cwd=%d\n", getcwd(found, sizeof found) != NULL);
}

static void changed_root(void) {
    char name[] = "/tmp/root_XXXXXX";
    require(mkdtemp(name) != NULL);
    require(geteuid() == 0 || unshare(CLONE_NEWUSER) == 0);
    pairs(10);
    require(chroot(name) == 0 && chdir("/") == 0);
    pairs(kMany);
    print_text("tmp=%d\n", access("/tmp", F_OK));
}

static void other_user(void) {
    pairs(10);
    require(setgid(65534) == 0 && setuid(65534) == 0);
    pairs(kMany);
    print_text("uid=%d\n", (int)getuid());
}

/* The numbers of descriptors are given out as without us, and none is left open. */
static void descriptors(void) {
    pairs(kMany);
    const int first = open("/dev/null", O_RDONLY);
    const int second = dup(first);
    pairs(kMany);
    int open_ones = 0;
    for (int fd = 0; fd < 1024; fd++) {
        open_ones += fcntl(fd, F_GETFD) != -1;
    }
    print_text("first=%d second=%d open=%d\n", first, second, open_ones);
}

static void few_descriptors(void) {
    limit(RLIMIT_NOFILE, 8);
    int opened = 0;
    while (dup(1) != -1) {
        opened++;
    }
    const int error = errno;
    pairs(kMany);
    print_text("opened=%d errno=%d\n", opened, error);
}

static void little_address_space(void) {
    long pages = 0;
    FILE* const file = fopen("/proc/self/statm", "r");
    require(file != NULL && fscanf(file, "%ld", &pages) == 1 && fclose(file) == 0);
    limit(RLIMIT_AS, (rlim_t)(pages + 256) * 4096);
    pairs(kMany);
    void* const block = fake_tensor_allocate(1UL << 30U);
    print_text("large=%d errno_kept=1\n", block != NULL);
}

static void small_stack_limit(void) {
    limit(RLIMIT_STACK, 128 << 10);
    const pid_t child = fork();
    if (child == 0) {
        execl("/proc/self/exe", "surroundings", "plain", NULL);
        _exit(96);
    }
    int status = 0;
    require(waitpid(child, &status, 0) == child);
    pairs(kMany);
    print_text("status=%d\n", status);
}

static void no_more_processes(void) {
    const pid_t child = fork();
    if (child == 0) {
        require(geteuid() != 0 || setuid(65534) == 0);
        limit(RLIMIT_NPROC, 0);
        pairs(10);
        const pid_t none = fork();
        print_text("fork=%d\n", none != -1);
        _exit(0);
    }
    int status = 0;
    require(waitpid(child, &status, 0) == child);
    pairs(10);
}

/* Filters: with an error for every system call that opens a file, as sandboxes have them. */
static void filtered(void) {
    pairs(10);
    const struct sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_openat, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    const struct sock_fprog program = {sizeof code / sizeof *code, (struct sock_filter*)code};
    require(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 && prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0);
    pairs(kMany);
    print_text("open=%d errno=%d\n", open("/dev/null", O_RDONLY), errno);
}

/* The strictest: any system call but read, write and exit ends the process. */
static void strict(void) {
    pairs(10);
    require(prctl(PR_SET_SECCOMP, SECCOMP_MODE_STRICT) == 0);
    pairs(kMany);
    print_text("strict=1\n");
    syscall(SYS_exit, 0);
}

static void renamed(int argc, char** argv) {
    char name[16] = "";
    pairs(10);
    memset(argv[0], 'x', strlen(argv[0]));
    require(argc > 1 && prctl(PR_SET_NAME, "renamed", 0, 0, 0) == 0 && prctl(PR_GET_NAME, name, 0, 0, 0) == 0);
    pairs(kMany);
    print_text("name=%s dumpable=%d\n", name, prctl(PR_GET_DUMPABLE, 0, 0, 0, 0));
}

/* A daemon: it leaves the session, the folder and its streams, and its parent ends before it. */
static void daemonised(void) {
    int ends[2];
    char line[64];
    require(pipe(ends) == 0);
    const pid_t child = fork();
    if (child == 0) {
        setsid();
        if (fork() != 0) {
            _exit(0);
        }
        require(chdir("/") == 0);
        for (int fd = 0; fd < 3; fd++) {
            close(fd);
        }
        require(open("/dev/null", O_RDWR) == 0);
        pairs(kMany);
        const int bytes = snprintf(line, sizeof line, "pid=%d sid=%d", (int)getpid(), getsid(0) == getppid());
        require(write(ends[1], line, (size_t)bytes) == bytes);
        _exit(0);
    }
    close(ends[1]);
    require(waitpid(child, NULL, 0) == child);
    const ssize_t got = read(ends[0], line, sizeof line);
    require(read(ends[0], line + (got > 0 ? got : 0), 1) == 0); /* until it has ended */
    print_text("%.*s allocs=%ld\n", (int)(strchr(line, ' ') - line), line, (long)kMany);
    pairs(10);
}

int main(int argc, char** argv) {
    const struct {
        const char* name;
        void (*run)(void);
    } ways[] = {{"removed folder", removed_folder},
                {"changed root", changed_root},
                {"other user", other_user},
                {"descriptors", descriptors},
                {"few descriptors", few_descriptors},
                {"little address space", little_address_space},
                {"small stack limit", small_stack_limit},
                {"no more processes", no_more_processes},
                {"filtered", filtered},
                {"strict", strict},
                {"daemonised", daemonised}};
    const char* const way = argc > 1 ? argv[1] : "plain";
    int is_known = 0;
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
        if (strcmp(way, ways[i].name) == 0) {
            ways[i].run();
            is_known = 1;
        }
    }
    if (strcmp(way, "renamed") == 0) {
        renamed(argc, argv);
    } else if (!is_known) {
        pairs(kMany);
    }
    print_text("allocs=%ld frees=%ld\n", pairs_done, pairs_done);
    return 0;
}
