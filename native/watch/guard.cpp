// Automatic watching: blocks that no operator may write must not change, whoever they belong to.
//
// These pieces of memory are looked at around an operator:
// - Pieces of all live blocks take turns, as many as the budget allows. They are looked at right before the operator
//   and again right after it.
// - Memory that the operator may write is looked at afresh when it has ended.
// - Behind each piece of such memory, the beginning of the next block is looked at too. An overrun goes there.
#include <algorithm>
#include <cinttypes>
#include <cstdio>

#include "watch/content_hash.h"
#include "watch/narrow_look.h"
#include "watch/watch_state.h"

namespace msmemscope::watch {
namespace {

constexpr std::uint64_t kPieceBytes = std::uint64_t{1} << 20U;
constexpr std::uint64_t kLargestCopiedPiece = 16 * kSegmentBytes;  // up to here changes are told to the byte
constexpr std::size_t kNeighbourSegments = 16;
constexpr std::uint64_t kMarginBytes = 4 * kSegmentBytes;
constexpr std::size_t kMostMargins = 64;  // of one operator
// To know from the kernel that a piece was not written takes as long as to read so much.
constexpr std::uint64_t kBytesPerAnswer = std::uint64_t{8} << 10U;

// A third of the budget each: before the operator, after it, and for the memory that it wrote with its neighbours.
std::uint64_t share_of_budget() noexcept { return recorder::settings().watch_budget_bytes / 3; }

bool is_guarded(const LiveBlock& block) noexcept {
    // Workspaces belong to whichever operator runs. Pools are cut from the driver's blocks.
    return block.size_bytes != 0 && block.pool == format::pool_of_tensors(block.device);
}

}  // namespace

void Guard::begin_following() noexcept {
    is_following_ = true;
    recorder::visit_live_blocks([](void* guard, const LiveBlock& block) { static_cast<Guard*>(guard)->add(block, 0); },
                                this);
}

void Guard::add(const LiveBlock& block, std::uint64_t moment) noexcept {
    if (!is_guarded(block)) {
        return;
    }
    for (std::uint64_t offset = 0; offset < block.size_bytes; offset += kPieceBytes) {
        const std::uint64_t bytes = std::min(kPieceBytes, block.size_bytes - offset);
        blocks_.erase(block.address + offset);
        blocks_.emplace(block.address + offset,
                        Guarded{block, offset, bytes, moment, 0, OperatorName{}, false,
                                Fingerprint(bytes <= kLargestCopiedPiece, Checksum::kHash64), WrittenPages()});
    }
    live_bytes_ += block.size_bytes;
}

void Guard::remove(const LiveBlock& block) noexcept {
    if (!is_guarded(block)) {
        return;
    }
    const auto first = blocks_.lower_bound(block.address);
    const auto last = blocks_.lower_bound(block.address + block.size_bytes);
    if (first != last) {
        live_bytes_ -= std::min(live_bytes_, block.size_bytes);
        blocks_.erase(first, last);
    }
}

void Guard::forget_contents() noexcept {
    for (auto& entry : blocks_) {
        entry.second.fingerprint.forget();
    }
}

void Guard::forget_all() noexcept {
    blocks_.clear();
    is_following_ = false;
    live_bytes_ = 0;
}

Content Guard::content_of(const Guarded& guarded) noexcept {
    Content content;
    content.address = guarded.begin();
    content.run_bytes = guarded.bytes;
    return content;
}

bool Guard::is_settled(const Guarded& guarded, const Vector<Running>& all, const Running* except) noexcept {
    if (guarded.is_exempt) {
        return false;
    }
    for (const Running& running : all) {
        // A block that was allocated since an operator began may be its result, which it is still making.
        if (&running != except &&
            (running.moment <= guarded.birth_moment || running.may_write(Range{guarded.begin(), guarded.end()}))) {
            return false;
        }
    }
    return true;
}

std::uint64_t Guard::look(Guarded& guarded, std::size_t most_segments, const Finding& finding, std::uint64_t moment,
                          const OperatorName& after) noexcept {
    const Content content = content_of(guarded);
    const Reading reading = reading_of(guarded.block.device, true);
    const std::uint64_t checksum_before = guarded.fingerprint.checksum();
    Change change;
    std::uint64_t cost = 0;
    const bool is_part = most_segments * kSegmentBytes < guarded.cost() && guarded.fingerprint.is_known();
    if (is_part) {
        cost = guarded.fingerprint.look_at_segments(content, reading, 0, most_segments, change);
        bytes_looked_at_ += cost;
    } else {
        const Look look = look_narrowly(guarded.fingerprint, guarded.pages, content, reading, change);
        if (!look.is_readable) {
            guarded.is_exempt = true;
            return 0;
        }
        cost = look.is_whole ? guarded.bytes : guarded.cost() + look.bytes_read;
        bytes_looked_at_ += guarded.bytes;
    }
    if (change.happened) {
        find(guarded, finding, change, checksum_before);
    }
    if (!is_part) {
        guarded.looked_at_moment = moment;
        guarded.looked_at_after = after;
    }
    return cost;
}

void Guard::Guarded::ask() const noexcept {
    if (pages.is_following()) {
        WrittenPages::ask_from(begin());
    }
}

std::uint64_t Guard::Guarded::cost() const noexcept {
    if (!pages.is_following() || !fingerprint.is_known()) {
        return bytes;
    }
    return std::min(bytes, kBytesPerAnswer);
}

void Guard::look_beside_writes(const Guarded& guarded, const Running& running, Finding finding) noexcept {
    Vector<ChangedRange> written;
    for (const Range& range : running.writes) {
        if (range.begin < guarded.end() && guarded.begin() < range.end) {
            written.push_back(ChangedRange{std::max(range.begin, guarded.begin()) - guarded.begin(),
                                           std::min(range.end, guarded.end()) - guarded.begin()});
        }
    }
    Change change;
    guarded.fingerprint.compare_outside(content_of(guarded), reading_of(guarded.block.device, true), written, change);
    if (change.happened) {
        finding.is_exact = guarded.looked_at_moment + 1 >= running.moment;
        finding.is_beside = true;
        find(guarded, finding, change, guarded.fingerprint.checksum());
    }
}

void Guard::keep_margins(Running& running, const Vector<Running>& all) noexcept {
    for (const Range& range : running.writes) {
        const auto own = piece_at(range.begin);
        if (own == blocks_.end() || own->second.begin() >= range.end) {
            continue;
        }
        const LiveBlock& block = own->second.block;
        const Range sides[] = {{std::max(block.address, range.begin - kMarginBytes), range.begin},
                               {range.end, std::min(block.address + block.size_bytes, range.end + kMarginBytes)}};
        for (const Range& side : sides) {
            const auto place = side.begin < side.end ? piece_at(side.begin) : blocks_.end();
            if (place == blocks_.end() || running.margins.size() == kMostMargins) {
                continue;
            }
            const Guarded& guarded = place->second;
            const bool has_copy = guarded.fingerprint.is_known() && guarded.fingerprint.content() != nullptr;
            const std::uint64_t begin = std::max(side.begin, guarded.begin());
            const std::uint64_t end = std::min(side.end, guarded.end());
            if (has_copy || begin >= end || !is_settled(guarded, all, &running)) {
                continue;
            }
            Margin margin{guarded.begin(), Content{begin, end - begin, {}}, Fingerprint(true, Checksum::kHash64)};
            Change none;
            if (margin.fingerprint.look(margin.content, reading_of(guarded.block.device, true), none)) {
                running.margins.push_back(margin);
            }
        }
    }
}

void Guard::look_at_margins(const Running& running, const Vector<Running>& all, Finding finding) noexcept {
    for (const Margin& margin : running.margins) {
        const auto place = blocks_.find(margin.piece);
        // Freed, and allocated again, meanwhile: not what was copied.
        if (place == blocks_.end() || place->second.birth_moment >= running.moment ||
            !is_settled(place->second, all, &running)) {
            continue;
        }
        const Guarded& guarded = place->second;
        Vector<ChangedRange> written;
        for (const Range& range : running.writes) {
            if (range.begin < margin.content.end() && margin.content.begin() < range.end) {
                written.push_back(ChangedRange{std::max(range.begin, margin.content.begin()) - margin.content.begin(),
                                               std::min(range.end, margin.content.end()) - margin.content.begin()});
            }
        }
        Change change;
        margin.fingerprint.compare_outside(margin.content, reading_of(guarded.block.device, true), written, change);
        if (change.happened) {
            change.move_by(margin.content.begin() - guarded.begin());
            finding.is_exact = true;
            finding.is_beside = true;
            find(guarded, finding, change, guarded.fingerprint.checksum());
        }
    }
}

Guard::Blocks::iterator Guard::piece_at(std::uint64_t address) noexcept {
    auto place = blocks_.upper_bound(address);
    if (place != blocks_.begin()) {
        const auto before = std::prev(place);
        if (before->second.end() > address) {
            return before;
        }
    }
    return place;
}

Guard::Blocks::iterator Guard::block_behind(std::uint64_t address) noexcept {
    const auto place = piece_at(address);
    if (place == blocks_.end() || place->second.block.address > address) {
        return place;
    }
    return blocks_.lower_bound(place->second.block.address + place->second.block.size_bytes);
}

void Guard::operator_begins(Running& running, const Vector<Running>& all, const OperatorName& previous,
                            std::uint64_t moment, const CallSite& site) noexcept {
    ++operators_;
    Finding finding{};
    finding.running = &running;
    finding.writes_are_known = true;
    finding.concurrent = all.size() - 1;
    const std::uint64_t share = share_of_budget();
    std::uint64_t used = 0;
    std::size_t seen = 0;
    auto place = blocks_.lower_bound(cursor_);
    for (; seen < blocks_.size(); ++seen) {
        if (place == blocks_.end()) {
            place = blocks_.begin();
            ++rounds_;
        }
        Guarded& guarded = place->second;
        if (is_settled(guarded, all, nullptr)) {
            if (used + guarded.cost() > share) {
                break;
            }
            guarded.ask();
            // Nothing has run since it was looked at last.
            finding.is_exact = guarded.looked_at_moment + 1 >= moment;
            used += look(guarded, ~std::size_t{0} / kSegmentBytes, finding, moment, previous);
            running.looked_at.push_back(guarded.begin());
        }
        ++place;
    }
    cursor_ = place == blocks_.end() ? 0 : place->first;
    const bool saw_all = seen == blocks_.size();
    whole_looks_ += saw_all ? 1U : 0U;
    rounds_ += saw_all && place == blocks_.end() ? 1U : 0U;
    WrittenPages::forget_answer();
    keep_margins(running, all);
    most_bytes_ = std::max(most_bytes_, used);
    report_findings(site);
}

void Guard::operator_ends(Running& running, const Vector<Running>& all, bool come_later, std::uint64_t moment,
                          const CallSite& site) noexcept {
    Finding finding{};
    finding.is_during = true;
    finding.running = &running;
    finding.writes_are_known = running.writes_are_known;
    finding.concurrent = all.size() - 1;
    look_at_margins(running, all, finding);
    for (const Range& range : running.writes) {
        for (auto place = piece_at(range.begin); place != blocks_.end() && place->second.begin() < range.end; ++place) {
            Guarded& guarded = place->second;
            if (guarded.fingerprint.is_known() && is_settled(guarded, all, &running)) {
                look_beside_writes(guarded, running, finding);
            }
            guarded.fingerprint.forget();
            guarded.is_exempt = guarded.is_exempt || come_later;
        }
    }
    std::uint64_t used = 0;
    for (const std::uint64_t address : running.looked_at) {
        const auto place = blocks_.find(address);
        if (place == blocks_.end()) {
            continue;
        }
        Guarded& guarded = place->second;
        // Passed over if it was freed and allocated again meanwhile, or written by somebody who may.
        if (guarded.fingerprint.is_known() && guarded.looked_at_moment >= running.moment &&
            is_settled(guarded, all, &running)) {
            guarded.ask();
            finding.is_exact = guarded.looked_at_moment == running.moment;
            used += look(guarded, ~std::size_t{0} / kSegmentBytes, finding, moment, running.name);
        }
    }
    WrittenPages::forget_answer();
    const std::uint64_t most = used + share_of_budget();
    for (const Range& range : running.writes) {
        const auto next = block_behind(range.begin);
        if (next == blocks_.end() || used + kNeighbourSegments * kSegmentBytes > most) {
            continue;
        }
        Guarded& guarded = next->second;
        if (guarded.fingerprint.is_known() && guarded.looked_at_moment != moment &&
            is_settled(guarded, all, &running)) {
            finding.is_exact = guarded.looked_at_moment + 1 >= moment;
            used += look(guarded, kNeighbourSegments, finding, moment, running.name);
        }
    }
    // The memory that was written is known again at once, as far as the budget goes. The rest follows when its turn
    // comes.
    for (const Range& range : running.writes) {
        for (auto place = piece_at(range.begin); place != blocks_.end() && place->second.begin() < range.end; ++place) {
            Guarded& guarded = place->second;
            if (used + guarded.bytes <= most && !guarded.fingerprint.is_known() && is_settled(guarded, all, &running)) {
                used += look(guarded, ~std::size_t{0} / kSegmentBytes, finding, moment, running.name);
            }
        }
    }
    most_bytes_ = std::max(most_bytes_, used);
    report_findings(site);
}

void Guard::note_coverage() const noexcept {
    if (operators_ == 0) {
        return;
    }
    char text[300];
    std::snprintf(text, sizeof(text),
                  "operators=%" PRIu64 ",operators_with_all_blocks=%" PRIu64 ",rounds=%" PRIu64 ",bytes=%" PRIu64
                  ",most_bytes_at_once=%" PRIu64 ",live_bytes=%" PRIu64 ",budget=%" PRIu64,
                  operators_, whole_looks_, rounds_, bytes_looked_at_, most_bytes_, live_bytes_,
                  recorder::settings().watch_budget_bytes);
    recorder::note_fact("watch.coverage", text);
}

}  // namespace msmemscope::watch
