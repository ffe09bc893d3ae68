// An operator that was named wrongly opens no window, and without a word nothing would be watched. Operators with
// similar names are found afterwards, among the recorded names.
#include <cstdio>
#include <cstring>

#include "watch/watch_state.h"

namespace msmemscope::watch {
void WindowStart::expect(const char* name) noexcept {
    if (std::strcmp(name_, name) == 0) {
        return;
    }
    report();
    std::snprintf(name_, sizeof(name_), "%s", name);
    has_run_ = false;
    is_child_ = false;
    operators_ran_ = false;
    reported_never_began_ = false;
    reported_no_outputs_ = false;
}

void WindowStart::note(const OperatorName& running) noexcept {
    if (name_[0] == '\0' || has_run_) {
        return;
    }
    operators_ran_ = true;
    has_run_ = std::strcmp(running.text, name_) == 0;
}

void WindowStart::note_opening(const OperatorName& running, std::size_t outputs) noexcept {
    has_run_ = true;
    if (outputs != 0 || reported_no_outputs_) {
        return;
    }
    reported_no_outputs_ = true;
    const bool is_kernel = running.source == Source::kKernel;
    char line[2 * kLongestName];
    std::snprintf(line, sizeof(line), "watch: %s ran, but %s: no output is watched; %s", running.text,
                  is_kernel ? "what a kernel returns is not known" : "it returns no memory that is observed",
                  is_kernel ? "name an operator (--level=op,kernel), or watch a tensor with msmemscope.watcher.watch"
                            : "is its device in --device?");
    recorder::warn(line);
    recorder::note_fact("watch.window_without_outputs", running.text);
}

void WindowStart::report() noexcept {
    // Processes without operators, such as launchers, are not what was aimed at.
    if (name_[0] == '\0' || has_run_ || !operators_ran_ || reported_never_began_) {
        return;
    }
    reported_never_began_ = true;
    if (!is_child_) {
        char text[2 * kLongestName];
        std::snprintf(
            text, sizeof(text), "watch: %s never ran: none of its outputs was watched%s", name_,
            recorder::settings().collect_operators ? "" : "; --level=kernel observes no operators: add op to it");
        recorder::warn(text);
    }
    recorder::note_fact("watch.window_never_began", name_);
}

void WindowStart::become_child() noexcept {
    is_child_ = true;
    operators_ran_ = false;
}

}  // namespace msmemscope::watch
