// An operator that was named wrongly opens no window, and nothing would be watched without a word.
#include <algorithm>
#include <cctype>
#include <cstdio>
#include <cstring>

#include "core/writer/hash.h"
#include "watch/watch_state.h"

namespace msmemscope::watch {
namespace {

constexpr int kNotSimilar = 3;
constexpr std::size_t kLongestPart = 63;
constexpr char kAten[] = "torch._ops.";

// What of a name says what the operator does, in small letters: "mm" of torch._ops.aten.mm.default, of aten.mm, and of
// 0_MmOperation/0_Mm; "neg" of the kernel Neg_b574e8fb_0.
struct Part {
    char text[kLongestPart + 1];
    std::size_t length = 0;

    explicit Part(const char* name) noexcept {
        const char* begin = name;
        const char* end = name + std::strlen(name);
        if (std::strncmp(name, kAten, sizeof(kAten) - 1) == 0) {
            begin = after(name + sizeof(kAten) - 1, end, '.');
            end = std::find(begin, end, '.');
        } else if (const char* const slash = std::strrchr(name, '/')) {
            begin = slash + 1;
        } else if (std::find(begin, end, '.') != end) {
            // Written in short: of two or three parts, the one behind the library.
            const char* const second = after(name, end, '.');
            const bool is_library = std::find(second, end, '.') != end || std::strncmp(name, "aten.", 5) == 0;
            begin = is_library ? second : name;
            end = std::find(begin, end, '.');
        } else if (std::isupper(static_cast<unsigned char>(*name)) != 0) {
            end = std::find(begin, end, '_');
        }
        while (begin < end && (*begin == '_' || std::isdigit(static_cast<unsigned char>(*begin)) != 0)) {
            ++begin;
        }
        while (begin < end && end[-1] == '_') {
            --end;
        }
        for (; begin < end && length < kLongestPart; ++begin) {
            text[length++] = static_cast<char>(std::tolower(static_cast<unsigned char>(*begin)));
        }
        text[length] = '\0';
    }

    static const char* after(const char* begin, const char* end, char separator) noexcept {
        const char* const place = std::find(begin, end, separator);
        return place == end ? begin : place + 1;
    }
};

// How many letters have to be changed, put in or left out (Levenshtein).
std::size_t distance(const Part& one, const Part& other) noexcept {
    std::size_t row[kLongestPart + 1];
    for (std::size_t column = 0; column <= other.length; ++column) {
        row[column] = column;
    }
    for (std::size_t line = 1; line <= one.length; ++line) {
        std::size_t diagonal = row[0];
        row[0] = line;
        for (std::size_t column = 1; column <= other.length; ++column) {
            const std::size_t replaced = diagonal + (one.text[line - 1] == other.text[column - 1] ? 0 : 1);
            diagonal = row[column];
            row[column] = std::min({replaced, row[column] + 1, row[column - 1] + 1});
        }
    }
    return row[other.length];
}

// 0: the same in another overload or library; 1: as a slip of the pen; 2: one is part of the other.
int rank_of(const char* wanted, const char* name) noexcept {
    const Part one(wanted);
    const Part other(name);
    if (one.length == 0 || other.length == 0) {
        return kNotSimilar;
    }
    const std::size_t shorter = std::min(one.length, other.length);
    const std::size_t changed = distance(one, other);
    if (changed == 0) {
        return 0;
    }
    if (shorter >= 4 && changed <= (shorter >= 8 ? 2U : 1U)) {
        return 1;
    }
    const bool is_part = std::strstr(one.text, other.text) != nullptr || std::strstr(other.text, one.text) != nullptr;
    return shorter >= 2 && is_part ? 2 : kNotSimilar;
}

}  // namespace

void WindowStart::expect(const char* name) noexcept {
    if (std::strcmp(name_, name) == 0) {
        return;
    }
    tell();
    std::snprintf(name_, sizeof(name_), "%s", name);
    has_run_ = false;
    is_child_ = false;
    operators_ran_ = false;
    told_of_outputs_ = false;
    similar_.clear();
    seen_.clear();
}

void WindowStart::note(const OperatorName& running) noexcept {
    if (name_[0] == '\0' || has_run_) {
        return;
    }
    operators_ran_ = true;
    const std::size_t bytes = std::strlen(running.text);
    if (std::strcmp(running.text, name_) == 0) {
        has_run_ = true;
        return;
    }
    if (seen_.size() >= kMostNames || !seen_.emplace(hash_bytes(running.text, bytes, 0), true).second) {
        return;
    }
    Similar similar{{}, rank_of(name_, running.text)};
    if (similar.rank == kNotSimilar) {
        return;
    }
    std::memcpy(similar.name, running.text, bytes + 1);
    const auto place = std::find_if(similar_.begin(), similar_.end(),
                                    [&similar](const Similar& other) { return other.rank > similar.rank; });
    similar_.insert(place, similar);
    if (similar_.size() > kMostSimilar) {
        similar_.pop_back();
    }
}

void WindowStart::note_opening(const OperatorName& running, std::size_t outputs) noexcept {
    has_run_ = true;
    if (outputs != 0 || told_of_outputs_) {
        return;
    }
    told_of_outputs_ = true;
    const bool is_kernel = running.source == Source::kKernel;
    char line[2 * kLongestName];
    std::snprintf(line, sizeof(line), "watch: %s ran, but %s: no output is watched; %s", running.text,
                  is_kernel ? "what a kernel returns is not known" : "it returns no memory that is observed",
                  is_kernel ? "name an operator (--level=op,kernel), or watch a tensor with msmemscope.watcher.watch"
                            : "is its device in --device?");
    recorder::say(line);
    recorder::note_fact("watch.window_without_outputs", running.text);
}

void WindowStart::tell() noexcept {
    // Processes without operators, such as launchers, are not what was aimed at.
    if (name_[0] == '\0' || has_run_ || !operators_ran_) {
        return;
    }
    char names[kMostSimilar * (kLongestName + 2) + 1] = "";
    std::size_t filled = 0;
    for (const Similar& similar : similar_) {
        filled += static_cast<std::size_t>(
            std::snprintf(names + filled, sizeof(names) - filled, "%s%s", filled == 0 ? "" : ", ", similar.name));
    }
    char text[sizeof(names) + 2 * kLongestName];
    if (!is_child_) {
        const bool sees_operators = recorder::settings().collect_operators;
        std::snprintf(text, sizeof(text), "watch: %s never ran: none of its outputs was watched; %s%s%s", name_,
                      filled == 0 ? "no operator with a similar name ran" : "what did run: ", names,
                      sees_operators ? "" : "; --level=kernel observes no operators: add op to it");
        recorder::say(text);
    }
    std::snprintf(text, sizeof(text), "%s%s%s", name_, filled == 0 ? "" : ", ", names);
    recorder::note_fact("watch.window_never_began", text);
}

void WindowStart::become_child() noexcept {
    is_child_ = true;
    operators_ran_ = false;
}

}  // namespace msmemscope::watch
