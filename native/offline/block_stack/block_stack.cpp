#include "offline/block_stack/block_stack.h"

#include <algorithm>
#include <numeric>

namespace msmemscope {
namespace {

struct Lying {
    std::uint32_t block;
    std::uint32_t since;
    std::int64_t low;
};

class BlockStack {
public:
    BlockStack(const std::uint32_t* ends, const std::int64_t* sizes, std::size_t most)
        : ends_(ends), sizes_(sizes), most_(most) {}

    void put(std::uint32_t block, std::uint32_t row) {
        lying_.push_back({block, row, height_});
        height_ += sizes_[block];
    }

    void take(std::uint32_t block, std::uint32_t row) {
        // The block that was allocated last is usually freed first.
        const auto found =
            std::find_if(lying_.rbegin(), lying_.rend(), [block](const Lying& one) { return one.block == block; });
        const auto place = std::next(found).base();
        add_piece(*place, row);
        for (auto above = lying_.erase(place); above != lying_.end(); ++above) {
            add_piece(*above, row);
            above->low -= sizes_[block];
            above->since = row;
        }
        height_ -= sizes_[block];
    }

    void finish() {
        for (const Lying& one : lying_) {
            add_piece(one, ends_[one.block]);
        }
    }

    bool is_too_large() const { return pieces_.blocks.size() > most_; }

    StackPieces&& pieces() { return std::move(pieces_); }

private:
    void add_piece(const Lying& one, std::uint32_t until) {
        if (until <= one.since || is_too_large()) {
            return;
        }
        pieces_.blocks.push_back(one.block);
        pieces_.begins.push_back(one.since);
        pieces_.ends.push_back(until);
        pieces_.lows.push_back(one.low);
    }

    const std::uint32_t* ends_;
    const std::int64_t* sizes_;
    std::size_t most_;
    std::int64_t height_ = 0;
    std::vector<Lying> lying_;
    StackPieces pieces_;
};

}  // namespace

std::optional<StackPieces> stack_blocks(const std::uint32_t* begins, const std::uint32_t* ends,
                                        const std::int64_t* sizes, std::size_t count, std::size_t most) {
    std::vector<std::uint32_t> by_end(count);
    std::iota(by_end.begin(), by_end.end(), 0U);
    std::stable_sort(by_end.begin(), by_end.end(),
                     [ends](std::uint32_t left, std::uint32_t right) { return ends[left] < ends[right]; });
    BlockStack stack(ends, sizes, most);
    std::size_t ended = 0;
    const auto end_until = [&](std::uint32_t row) {
        for (; ended < count && ends[by_end[ended]] <= row && !stack.is_too_large(); ++ended) {
            const std::uint32_t block = by_end[ended];
            if (ends[block] > begins[block]) {
                stack.take(block, ends[block]);
            }
        }
    };
    for (std::size_t block = 0; block < count && !stack.is_too_large(); ++block) {
        end_until(begins[block]);
        if (ends[block] > begins[block]) {
            stack.put(static_cast<std::uint32_t>(block), begins[block]);
        }
    }
    end_until(UINT32_MAX - 1);
    stack.finish();
    if (stack.is_too_large()) {
        return std::nullopt;
    }
    return stack.pieces();
}

}  // namespace msmemscope
