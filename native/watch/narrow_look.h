// A look at memory that reads only the pages that were written since the last one, if the kernel tells.
#pragma once

#include <cstdint>

#include "watch/fingerprint.h"
#include "watch/written_pages.h"

namespace msmemscope::watch {

struct Look {
    bool is_readable;
    bool is_whole;  // all of it was read
    std::uint64_t bytes_read;
};

// Looks at memory. The first look reads all of it. Later looks read only the pages that were written, if the kernel
// tells. Now and then they read all of it as well, and must come to the same result. The pages must be of the same
// memory, and of nobody else.
Look look_narrowly(Fingerprint& fingerprint, WrittenPages& pages, const Content& content, Reading reading,
                   Change& change) noexcept;

}  // namespace msmemscope::watch
