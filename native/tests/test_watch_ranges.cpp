// Ranges of strided views, against the bytes that they have one by one.
#include <set>
#include <vector>

#include "tests/check.h"
#include "watch/memory_reader.h"

using namespace msmemscope::watch;

namespace {

constexpr std::uint64_t kBegin = 4096;

std::set<std::uint64_t> bytes_of(const Content& content, std::size_t level = 0, std::uint64_t offset = 0) {
    std::set<std::uint64_t> all;
    if (level == content.outer.size()) {
        for (std::uint64_t byte = 0; byte < content.run_bytes; ++byte) {
            all.insert(content.address + offset + byte);
        }
        return all;
    }
    const Dimension& dimension = content.outer[level];
    for (std::uint64_t index = 0; index < dimension.count; ++index) {
        all.merge(bytes_of(content, level + 1, offset + index * static_cast<std::uint64_t>(dimension.stride_bytes)));
    }
    return all;
}

Content view(std::uint64_t offset, std::uint64_t run, std::vector<Dimension> outer) {
    Content content{kBegin + offset, run, {}};
    for (const Dimension& dimension : outer) {
        content.outer.push_back(dimension);
    }
    return content;
}

void ranges_overlap_where_their_bytes_do() {
    std::vector<Content> views;
    for (const std::uint64_t offset : {0, 4, 8, 12, 31, 64}) {
        views.push_back(view(offset, 4, {}));
        views.push_back(view(offset, 40, {}));
        views.push_back(view(offset, 4, {{16, 8}}));
        views.push_back(view(offset, 8, {{8, 16}}));
        views.push_back(view(offset, 4, {{4, 32}, {4, 8}}));  // as one dimension of 16
    }
    for (const Content& one : views) {
        for (const Content& other : views) {
            const std::set<std::uint64_t> bytes = bytes_of(one);
            bool do_overlap = false;
            for (const std::uint64_t byte : bytes_of(other)) {
                do_overlap = do_overlap || bytes.count(byte) != 0;
            }
            const Range first = one.range();
            const Range second = other.range();
            // Of different strides it is only said that they can.
            const bool is_exact =
                first.stride_bytes == second.stride_bytes || first.stride_bytes == 0 || second.stride_bytes == 0;
            CHECK(overlap(first, second) == do_overlap || (!is_exact && !do_overlap));
        }
    }
}

}  // namespace

int main() { ranges_overlap_where_their_bytes_do(); }
