#include "offline/alignment/alignment.h"

#include <algorithm>
#include <limits>

namespace msmemscope {
namespace {

// Elements begin <= i < end of both sequences.
struct Box {
    std::int64_t first_begin;
    std::int64_t first_end;
    std::int64_t second_begin;
    std::int64_t second_end;
};

struct Place {
    std::int64_t first;
    std::int64_t second;
};

// Paths lead from the beginning of a box to its end, over steps in one sequence and matches in both. A diagonal is the
// difference of the indices. For each diagonal we keep the farthest place that a path of so many steps reaches. Paths
// from the beginning keep the largest index, and paths from the end the smallest.
class Aligner {
public:
    Aligner(const std::uint32_t* first, std::size_t first_count, const std::uint32_t* second, std::size_t second_count,
            std::int64_t most_steps)
        : first_(first),
          second_(second),
          most_steps_(most_steps),
          zero_(static_cast<std::int64_t>(second_count) + 1),
          forward_(first_count + second_count + 3),
          backward_(first_count + second_count + 3) {
        alignment_.partners.assign(first_count, kNoPartner);
        alignment_.is_longest = true;
    }

    Alignment run() {
        std::vector<Box> pending{{0, static_cast<std::int64_t>(alignment_.partners.size()), 0, zero_ - 1}};
        while (!pending.empty()) {
            Box box = pending.back();
            pending.pop_back();
            match_ends(box);
            if (box.first_begin == box.first_end || box.second_begin == box.second_end) {
                continue;
            }
            const Place middle = find_middle(box);
            pending.push_back({box.first_begin, middle.first, box.second_begin, middle.second});
            pending.push_back({middle.first, box.first_end, middle.second, box.second_end});
        }
        return std::move(alignment_);
    }

private:
    bool equal(std::int64_t first, std::int64_t second) const { return first_[first] == second_[second]; }
    void match(std::int64_t first, std::int64_t second) {
        alignment_.partners[static_cast<std::size_t>(first)] = second;
    }
    std::int64_t& forward(std::int64_t diagonal) { return forward_[static_cast<std::size_t>(diagonal + zero_)]; }
    std::int64_t& backward(std::int64_t diagonal) { return backward_[static_cast<std::size_t>(diagonal + zero_)]; }

    void match_ends(Box& box) {
        while (box.first_begin < box.first_end && box.second_begin < box.second_end &&
               equal(box.first_begin, box.second_begin)) {
            match(box.first_begin++, box.second_begin++);
        }
        while (box.first_begin < box.first_end && box.second_begin < box.second_end &&
               equal(box.first_end - 1, box.second_end - 1)) {
            match(--box.first_end, --box.second_end);
        }
    }

    // A place that a shortest path leads through, which is neither the beginning nor the end of the box. The box has no
    // common element at either end.
    Place find_middle(const Box& box) {
        const std::int64_t lowest = box.first_begin - box.second_end;
        const std::int64_t highest = box.first_end - box.second_begin;
        const std::int64_t begin = box.first_begin - box.second_begin;
        const std::int64_t end = box.first_end - box.second_end;
        const bool is_odd = ((begin - end) & 1) != 0;
        constexpr std::int64_t kFar = std::numeric_limits<std::int64_t>::max() / 2;
        std::int64_t forward_low = begin;
        std::int64_t forward_high = begin;
        std::int64_t backward_low = end;
        std::int64_t backward_high = end;
        forward(begin) = box.first_begin;
        backward(end) = box.first_end;
        for (std::int64_t steps = 1;; ++steps) {
            // Diagonals that no path has reached yet must not be chosen as neighbours.
            forward_low > lowest ? forward(--forward_low - 1) = -1 : ++forward_low;
            forward_high < highest ? forward(++forward_high + 1) = -1 : --forward_high;
            for (std::int64_t diagonal = forward_high; diagonal >= forward_low; diagonal -= 2) {
                const std::int64_t before = forward(diagonal - 1);
                const std::int64_t after = forward(diagonal + 1);
                std::int64_t first = before >= after ? before + 1 : after;
                while (first < box.first_end && first - diagonal < box.second_end && equal(first, first - diagonal)) {
                    ++first;
                }
                forward(diagonal) = first;
                if (is_odd && backward_low <= diagonal && diagonal <= backward_high && backward(diagonal) <= first) {
                    return Place{first, first - diagonal};
                }
            }
            backward_low > lowest ? backward(--backward_low - 1) = kFar : ++backward_low;
            backward_high < highest ? backward(++backward_high + 1) = kFar : --backward_high;
            for (std::int64_t diagonal = backward_high; diagonal >= backward_low; diagonal -= 2) {
                const std::int64_t before = backward(diagonal - 1);
                const std::int64_t after = backward(diagonal + 1);
                std::int64_t first = before < after ? before : after - 1;
                while (first > box.first_begin && first - diagonal > box.second_begin &&
                       equal(first - 1, first - diagonal - 1)) {
                    --first;
                }
                backward(diagonal) = first;
                if (!is_odd && forward_low <= diagonal && diagonal <= forward_high && first <= forward(diagonal)) {
                    return Place{first, first - diagonal};
                }
            }
            if (steps >= most_steps_) {
                alignment_.is_longest = false;
                return farthest(box, forward_low, forward_high);
            }
        }
    }

    // Where the search is given up: the place that the paths from the beginning have come farthest to.
    Place farthest(const Box& box, std::int64_t low, std::int64_t high) {
        Place best{box.first_begin, box.second_begin};
        for (std::int64_t diagonal = high; diagonal >= low; diagonal -= 2) {
            const std::int64_t first = std::min({forward(diagonal), box.first_end, box.second_end + diagonal});
            if (first - diagonal >= box.second_begin && 2 * first - diagonal > best.first + best.second) {
                best = Place{first, first - diagonal};
            }
        }
        return best;
    }

    const std::uint32_t* first_;
    const std::uint32_t* second_;
    std::int64_t most_steps_;
    std::int64_t zero_;  // index of diagonal 0
    std::vector<std::int64_t> forward_;
    std::vector<std::int64_t> backward_;
    Alignment alignment_;
};

}  // namespace

Alignment align(const std::uint32_t* first, std::size_t first_count, const std::uint32_t* second,
                std::size_t second_count, std::int64_t most_steps) {
    return Aligner(first, first_count, second, second_count, most_steps).run();
}

}  // namespace msmemscope
