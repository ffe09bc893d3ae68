// An operator that has begun and not ended, and the memory that it may write.
#pragma once

#include <cstdint>

#include "watch/fingerprint.h"
#include "watch/watch.h"

namespace msmemscope::watch {

inline constexpr std::size_t kLongestName = 255;

struct OperatorName {
    char text[kLongestName + 1];
    std::uint64_t call;
    Source source;

    void set(const Operator& one) noexcept;
};

// Memory beside the memory that an operator may write, in the same block, as it was right before the operator.
struct Margin {
    std::uint64_t piece;  // of automatic watching, by its address
    Content content;
    Fingerprint fingerprint;
};

// An operator that has begun and not ended.
struct Running {
    std::uint32_t thread_id;
    OperatorName name;
    std::uint64_t moment;  // at which it began
    bool writes_are_known;
    Vector<Range> writes;
    // Blocks that automatic watching looked at right before it.
    Vector<std::uint64_t> looked_at;
    Vector<Margin> margins;

    bool may_write(const Range& memory) const noexcept;
};

}  // namespace msmemscope::watch
