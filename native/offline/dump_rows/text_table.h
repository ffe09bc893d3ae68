// The different texts of a column, each once, with a number.
#pragma once

#include <cstdint>
#include <cstring>
#include <deque>
#include <string>
#include <string_view>
#include <vector>

#include "offline/dump_rows/hash_secret.h"

namespace msmemscope {

class TextTable {
public:
    // Returns the number of a text: 0 of an empty one, else from 1 in the order in which texts first come. The text
    // must stay where it is as long as the table lives.
    std::uint32_t number_of(std::string_view text) {
        return found_or_added(text, [](std::string_view added) { return added; });
    }

    // The same for a text that does not stay.
    std::uint32_t number_of_copy(std::string_view text) {
        return found_or_added(
            text, [this](std::string_view added) -> std::string_view { return copies_.emplace_back(added); });
    }

    // The texts; number 1 is the first.
    const std::vector<std::string_view>& texts() const { return texts_; }

private:
    struct Slot {
        std::uint64_t hash;
        std::uint32_t number;
    };

    template <typename Kept>
    std::uint32_t found_or_added(std::string_view text, Kept kept) {
        if (text.empty()) {
            return 0;
        }
        if (texts_.size() * 2 >= slots_.size()) {
            grow();
        }
        const std::uint64_t hash = hash_of(text);
        for (std::size_t place = hash & mask_;; place = (place + 1) & mask_) {
            Slot& slot = slots_[place];
            if (slot.number == 0) {
                texts_.push_back(kept(text));
                slot = {hash, static_cast<std::uint32_t>(texts_.size())};
                return slot.number;
            }
            if (slot.hash == hash && texts_[slot.number - 1] == text) {
                return slot.number;
            }
        }
    }

    // A word at a time: files repeat their texts, so most of the time goes here.
    std::uint64_t hash_of(std::string_view text) const {
        std::uint64_t hash = text.size();
        const char* place = text.data();
        std::size_t left = text.size();
        for (; left > 8; place += 8, left -= 8) {
            hash = secret_.mixed(hash ^ word_at(place, 8));
        }
        return secret_.mixed(hash ^ word_at(place, left));
    }

    static std::uint64_t word_at(const char* place, std::size_t count) {
        std::uint64_t word = 0;
        std::memcpy(&word, place, count);
        return word;
    }

    void grow() {
        std::vector<Slot> old(slots_.empty() ? kFirstSlots : slots_.size() * 2, Slot{0, 0});
        old.swap(slots_);
        mask_ = slots_.size() - 1;
        for (const Slot& slot : old) {
            if (slot.number != 0) {
                std::size_t place = slot.hash & mask_;
                while (slots_[place].number != 0) {
                    place = (place + 1) & mask_;
                }
                slots_[place] = slot;
            }
        }
    }

    static constexpr std::size_t kFirstSlots = 1024;

    const HashSecret secret_ = hash_secret();
    std::vector<Slot> slots_;
    std::size_t mask_ = 0;
    std::vector<std::string_view> texts_;
    std::deque<std::string> copies_;
};

}  // namespace msmemscope
