// libmsmemscope_core.so: what happens when it is mapped into a process and when that
// process ends. It is preloaded by the launcher, or comes with the Python extension;
// either way there is one copy per process, found by its soname.
#include <sys/auxv.h>
#include <time.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "core/writer/ledger.h"
#include "core/writer/rank_choice.h"
#include "core/writer/recorder.h"
#include "core/writer/stderr_line.h"
#include "interpose/elf_image.h"
#include "interpose/follow.h"
#include "interpose/loading.h"
#include "interpose/patcher.h"
#include "watch/watch.h"

namespace {

// Tells the launcher that this image can be observed, before it allocates anything.
void note_start() noexcept {
    if (msmemscope::recorder::settings().launch_directory[0] == '\0') {
        return;
    }
    static char line[4200];
    static char executable[4096];
    const ssize_t length = readlink("/proc/self/exe", executable, sizeof(executable) - 1);
    executable[length > 0 ? length : 0] = '\0';
    timespec now{};
    clock_gettime(CLOCK_REALTIME, &now);
    std::snprintf(line, sizeof(line), "%d\t%lld%09ld\t%s", static_cast<int>(getppid()),
                  static_cast<long long>(now.tv_sec), now.tv_nsec, executable);
    msmemscope::append_to_ledger("start", line);
}

// The settings that a launcher passed on, null if there are none. The C library has not set up environ yet.
const char* settings_in(char** environment) noexcept {
    const std::size_t name_bytes = std::strlen(msmemscope::kSettingsVariable);
    for (; environment != nullptr && *environment != nullptr; ++environment) {
        if (std::strncmp(*environment, msmemscope::kSettingsVariable, name_bytes) == 0 &&
            (*environment)[name_bytes] == '=') {
            return *environment + name_bytes + 1;
        }
    }
    return nullptr;
}

void begin(char** environment) noexcept {
    const char* const settings = settings_in(environment);
    if (settings != nullptr && msmemscope::recorder::is_left_out(settings, environment)) {
        return;
    }
    msmemscope::remember_stderr();
    if (settings != nullptr && msmemscope::recorder::configure(settings)) {
        msmemscope::watch::apply_settings();
        note_start();
        msmemscope::install_hooks();
    }
}

// Whether the program itself contains the runtime of a sanitizer. The functions of such a runtime stand in front of the
// C library's, and cannot be called before it is set up. (A runtime in a library of its own sets itself up.) No
// function of the C library is called here.
bool program_defines(const char* function) noexcept {
    dl_phdr_info info{};
    info.dlpi_phdr = reinterpret_cast<const ElfW(Phdr)*>(getauxval(AT_PHDR));
    info.dlpi_phnum = static_cast<ElfW(Half)>(getauxval(AT_PHNUM));
    for (unsigned index = 0; index < info.dlpi_phnum; ++index) {
        if (info.dlpi_phdr[index].p_type == PT_PHDR) {
            info.dlpi_addr = reinterpret_cast<std::uint64_t>(info.dlpi_phdr) - info.dlpi_phdr[index].p_vaddr;
        }
    }
    return info.dlpi_phdr != nullptr && msmemscope::ElfImage(info).definition_of(function) != nullptr;
}

// The environment of a program whose sanitizer is not set up yet; null as soon as we have begun.
char** postponed_environment = nullptr;

// The library is marked "initialise first". So this runs before the constructors of every other library, and before the
// C library has set up environ. The arguments are the only way to the environment.
__attribute__((constructor)) void load(int, char**, char** environment) {
    if (program_defines("__tsan_init") || program_defines("__msan_init")) {
        postponed_environment = environment;
    } else {
        begin(environment);
    }
}

__attribute__((destructor)) void unload() {
    msmemscope::watch::finish();
    msmemscope::recorder::close();
}

}  // namespace

void msmemscope::follow_live_blocks() noexcept {
    recorder::configure("output=/\nevents=\ncollect_mode=deferred\ndevices=npu,cpu");
    install_hooks();
}

void msmemscope::named_library_loaded() noexcept {
    // With settings, the core has begun by them, or leaves this process out.
    if (postponed_environment == nullptr && !recorder::is_configured() && std::getenv(kSettingsVariable) == nullptr) {
        follow_live_blocks();
    }
}

// The sanitizer was set up before the first start-up code of a library ran, which is when this is called.
void msmemscope::begin_if_postponed() noexcept {
    if (__builtin_expect(postponed_environment == nullptr, 1)) {
        return;
    }
    char** const environment = postponed_environment;
    postponed_environment = nullptr;
    if (!program_defines("__msan_init")) {
        begin(environment);
    } else if (settings_in(environment) != nullptr) {
        msmemscope::remember_stderr();
        static const char line[] =
            "msmemscope: a program with MemorySanitizer cannot be observed, because it takes what other libraries "
            "write "
            "for uninitialised: it runs without\n";
        msmemscope::write_stderr_line(line, sizeof(line) - 1);
    }
}
