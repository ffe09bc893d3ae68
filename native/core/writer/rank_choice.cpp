#include "core/writer/rank_choice.h"

#include <cstdint>
#include <cstdlib>
#include <cstring>

namespace msmemscope::recorder {
namespace {

constexpr const char* kRankVariables[] = {"RANK", "OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK", "SLURM_PROCID"};
constexpr std::size_t kMostDigits = 9;
constexpr std::uint32_t kGolden = 2654435769U;

// The value of a line of the settings text, which ends at a newline or the terminator; null if there is none.
const char* value_of(const char* settings_text, const char* key) noexcept {
    const std::size_t key_bytes = std::strlen(key);
    for (const char* line = settings_text; line != nullptr; line = std::strchr(line, '\n')) {
        line += *line == '\n' ? 1 : 0;
        if (std::strncmp(line, key, key_bytes) == 0 && line[key_bytes] == '=') {
            return line + key_bytes + 1;
        }
    }
    return nullptr;
}

bool is_empty(const char* value) noexcept { return value == nullptr || *value == '\n' || *value == '\0'; }

// The rank that a variable holds, -1 if it holds none.
std::int64_t rank_in(const char* text) noexcept {
    const std::size_t digits = std::strspn(text, "0123456789");
    return digits == 0 || digits > kMostDigits || text[digits] != '\0' ? -1 : std::strtoll(text, nullptr, 10);
}

std::int64_t rank_of(char** environment) noexcept {
    for (const char* const name : kRankVariables) {
        const std::size_t name_bytes = std::strlen(name);
        for (char** variable = environment; variable != nullptr && *variable != nullptr; ++variable) {
            if (std::strncmp(*variable, name, name_bytes) == 0 && (*variable)[name_bytes] == '=') {
                const std::int64_t rank = rank_in(*variable + name_bytes + 1);
                if (rank >= 0) {
                    return rank;
                }
            }
        }
    }
    return -1;
}

bool lists(const char* ranks, std::int64_t rank) noexcept {
    while (!is_empty(ranks)) {
        char* end = nullptr;
        const std::int64_t first = std::strtoll(ranks, &end, 10);
        const std::int64_t last = *end == '-' ? std::strtoll(end + 1, &end, 10) : first;
        if (first <= rank && rank <= last) {
            return true;
        }
        if (*end != ',') {
            return false;
        }
        ranks = end + 1;
    }
    return false;
}

bool samples(const char* sample, std::int64_t rank) noexcept {
    if (is_empty(sample)) {
        return false;
    }
    char* end = nullptr;
    const std::uint64_t count = std::strtoull(sample, &end, 10);
    const std::uint64_t of = *end == '/' ? std::strtoull(end + 1, nullptr, 10) : 0;
    const std::uint32_t spread = static_cast<std::uint32_t>(rank) * kGolden;
    return spread * of < count << 32U;
}

}  // namespace

bool is_left_out(const char* settings_text, char** environment) noexcept {
    const char* const ranks = value_of(settings_text, "ranks");
    const char* const sample = value_of(settings_text, "sample_ranks");
    if (is_empty(ranks) && is_empty(sample)) {
        return false;
    }
    const std::int64_t rank = rank_of(environment);
    return rank >= 0 && !lists(ranks, rank) && !samples(sample, rank);
}

}  // namespace msmemscope::recorder
