// The findings of automatic watching around one operator, told as few times as they happened.
//
// One wrong write can be found in several places:
// - in the padding of the operator's own block, and in the block behind it;
// - in pieces of one large block;
// - in several small blocks side by side.
//
// All of it is told as one change of the first block that the operator may not write at all. If there is no such block,
// it is told of the operator's own.
#include <algorithm>

#include "watch/watch_state.h"

namespace msmemscope::watch {
namespace {

// The gap between two changes of one write: bytes that it left as they were, and bytes of the allocator between blocks.
constexpr std::uint64_t kWidestGap = 256;

std::uint64_t end_of(const LiveBlock& block) noexcept { return block.address + block.size_bytes; }

}  // namespace

bool Guard::Found::continues(const Found& before) const noexcept {
    if (block.address == before.block.address) {
        return finding.is_exact == before.finding.is_exact;
    }
    const std::uint64_t last = before.block.address + before.change.last;
    return block.device == before.block.device && block.address + change.first - last - 1 <= kWidestGap &&
           (finding.is_exact == before.finding.is_exact || before.finding.is_beside);
}

void Guard::find(const Guarded& guarded, const Finding& finding, const Change& change,
                 std::uint64_t checksum_before) noexcept {
    Found found{guarded.block, finding,         guarded.looked_at_after,
                change,        checksum_before, guarded.fingerprint.checksum()};
    found.change.move_by(guarded.offset);
    found_.push_back(found);
}

void Guard::report_findings(const CallSite& site) noexcept {
    if (found_.empty()) {
        return;
    }
    std::sort(found_.begin(), found_.end(), [](const Found& one, const Found& other) {
        return one.block.address + one.change.first < other.block.address + other.change.first;
    });
    for (auto first = found_.begin(); first != found_.end();) {
        auto end = first + 1;
        while (end != found_.end() && end->continues(*(end - 1))) {
            ++end;
        }
        auto reported = std::find_if(first, end, [](const Found& found) { return !found.finding.is_beside; });
        Overrun overrun{};
        if (reported == end) {
            reported = first;
        } else if (reported != first && (reported - 1)->block.address != reported->block.address) {
            overrun.from_neighbour = true;
            overrun.first_in_neighbour = (reported - 1)->change.first;
        }
        std::uint64_t last_block = reported->block.address;
        for (auto next = reported + 1; next != end; ++next) {
            if (next->block.address == reported->block.address) {
                reported->change.append(next->change);
            } else if (next->block.address != last_block && !next->finding.is_beside) {
                ++overrun.more_blocks;
                last_block = next->block.address;
            }
            if (!next->finding.is_beside) {
                overrun.until = next->block.address + next->change.last + 1;
            }
        }
        report_one(*reported, overrun, site);
        first = end;
    }
    found_.clear();
}

void Guard::report_one(Found& found, const Overrun& overrun, const CallSite& site) noexcept {
    found.finding.previous = &found.previous;
    Neighbour neighbour{};
    const Neighbour* before = nullptr;
    auto place = blocks_.lower_bound(found.block.address);
    if (place != blocks_.begin()) {
        --place;
        const Running* const running = found.finding.running;
        neighbour.block = place->second.block;
        neighbour.is_written =
            running != nullptr && running->may_write(Range{neighbour.block.address, end_of(neighbour.block)});
        before = &neighbour;
    }
    write_change_of_block(found.block, found.finding, found.change, found.checksum_before, found.checksum_after, before,
                          overrun, site);
}

}  // namespace msmemscope::watch
