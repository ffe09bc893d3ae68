/* A process that becomes another program, or starts one, in every way; what the next image is given says the first
 * argument. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <spawn.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "target.h"

extern char** environ;

static void pairs(long count) {
    for (long i = 0; i < count; i++) {
        fake_tensor_free(fake_tensor_allocate(size_of_block(i)));
    }
}

static int end_of(pid_t child) {
    int status = 0;
    if (child < 0 || waitpid(child, &status, 0) != child) {
        print_text("errno=%d\n", errno);
        _exit(98);
    }
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

static char* last[] = {"images", "last", NULL};
static char* nothing[] = {NULL};

static int run_clone(void* memory) {
    (void)memory;
    execv("/proc/self/exe", last);
    return 96;
}

int main(int argc, char** argv) {
    const char* const way = argc > 1 ? argv[1] : "last";
    long left = number_argument(argc, argv, 2, 0);
    char number[24];
    pairs(10);
    print_text("image=%s pid=%d allocs=10 frees=10\n", way, (int)getpid());
    if (strcmp(way, "chain") == 0 && left > 0) {
        (void)snprintf(number, sizeof number, "%ld", left - 1);
        char* arguments[] = {argv[0], argv[1], number, NULL};
        execv("/proc/self/exe", arguments);
        return 97;
    }
    if (strcmp(way, "no environment") == 0) {
        execve("/proc/self/exe", last, nothing);
    }
    if (strcmp(way, "other preload") == 0) {
        setenv("LD_PRELOAD", argv[2], 1);
        execv("/proc/self/exe", last);
    }
    if (strcmp(way, "cleared") == 0) {
        clearenv();
        pairs(10);
        const pid_t child = fork();
        if (child == 0) {
            execv("/proc/self/exe", last);
        }
        print_text("exit=%d\n", end_of(child));
    }
    if (strcmp(way, "by descriptor") == 0) {
        fexecve(open("/proc/self/exe", O_RDONLY | O_CLOEXEC), last, environ);
    }
    if (strcmp(way, "spawn") == 0) {
        for (int i = 0; i < 20; i++) {
            pid_t child = -1;
            posix_spawn(&child, "/proc/self/exe", NULL, NULL, last, i % 2 == 0 ? environ : nothing);
            print_text("exit=%d\n", end_of(child));
            pairs(3);
        }
        print_text("pid=%d allocs=70 frees=70\n", (int)getpid());
    }
    if (strcmp(way, "clone") == 0) {
        static char stack[65536];
        const pid_t child = clone(run_clone, stack + sizeof stack, CLONE_VM | CLONE_VFORK | SIGCHLD, NULL);
        print_text("exit=%d\n", end_of(child));
        pairs(3);
        print_text("pid=%d allocs=13 frees=13\n", (int)getpid());
    }
    if (strcmp(way, "shell") == 0) {
        print_text("exit=%d\n", system("exit 3") >> 8);
        FILE* const pipe = popen("echo from the shell; exit 4", "r");
        char line[64] = "";
        if (pipe == NULL || fgets(line, sizeof line, pipe) == NULL) {
            return 95;
        }
        print_text("line=%zu exit=%d\n", strlen(line), pclose(pipe) >> 8);
    }
    if (strcmp(way, "missing") == 0) {
        execl("/no/such/program", "program", NULL);
        print_text("errno=%d\n", errno);
        pairs(5);
    }
    return 0;
}
