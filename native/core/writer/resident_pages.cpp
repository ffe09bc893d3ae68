#include "core/writer/resident_pages.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>

#include "core/writer/keep_errno.h"

namespace msmemscope {

std::uint64_t resident_bytes(std::uint64_t address, std::uint64_t bytes, std::size_t most_pieces) noexcept {
    if (address == 0 || bytes == 0) {
        return 0;
    }
    const KeepErrno keep_errno;
    const auto page = static_cast<std::uint64_t>(getpagesize());
    const std::uint64_t first = address / page;
    const std::uint64_t count = (address + bytes + page - 1) / page - first;
    const std::uint64_t all_pieces = (count + kPagesInPiece - 1) / kPagesInPiece;
    const std::uint64_t pieces = std::min<std::uint64_t>(all_pieces, most_pieces);
    const std::uint64_t distance = pieces == all_pieces ? kPagesInPiece : count / pieces;
    std::uint64_t asked = 0;
    std::uint64_t resident = 0;
    for (std::uint64_t piece = 0; piece < pieces; ++piece) {
        unsigned char pages[kPagesInPiece];
        const std::uint64_t begin = piece * distance;
        const std::uint64_t share = std::min(distance, count - begin);
        const std::uint64_t length = std::min<std::uint64_t>(share, kPagesInPiece);
        // The middle of its share: of a part that is filled from one end the estimate has no bias.
        const std::uint64_t place = first + begin + (share - length) / 2;
        if (mincore(reinterpret_cast<void*>(place * page), length * page, pages) != 0) {
            return bytes;
        }
        asked += length;
        resident += static_cast<std::uint64_t>(
            std::count_if(pages, pages + length, [](unsigned char state) { return (state & 1U) != 0; }));
    }
    if (resident == asked) {
        return bytes;
    }
    const double share = static_cast<double>(resident) / static_cast<double>(asked);
    return static_cast<std::uint64_t>(share * static_cast<double>(bytes));
}

}  // namespace msmemscope
