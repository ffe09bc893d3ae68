#include "offline/dump_writing/keyed_texts.h"

#include <algorithm>

namespace msmemscope {

bool needs_quotes(std::string_view text) {
    return std::any_of(text.begin(), text.end(),
                       [](char letter) { return letter == ',' || letter == '"' || letter == '\n' || letter == '\r'; });
}

void put_text(ByteBuffer& target, std::string_view text, TextForm form) {
    if (form == TextForm::kPlain) {
        target.put(text);
        return;
    }
    for (std::size_t quote = text.find('"'); quote != std::string_view::npos; quote = text.find('"')) {
        target.put(text.substr(0, quote + 1));
        target.put('"');
        text.remove_prefix(quote + 1);
    }
    target.put(text);
}

void KeyedTexts::find_new(const Numbers& keys, std::size_t count, std::vector<std::uint64_t>& found) {
    std::uint64_t previous = 0;
    for (std::size_t row = 0; row < count; ++row) {
        const std::uint64_t key = keys.at(row);
        if (key == previous || key == 0) {
            continue;
        }
        previous = key;
        const std::size_t used = used_;
        taken_slot(key);
        if (used_ != used) {
            found.push_back(key);
        }
    }
}

void KeyedTexts::add(std::uint64_t key, std::string_view text) {
    if (key == 0) {
        return;
    }
    const std::size_t begin = bytes_.size();
    put_text(bytes_, text, form_);
    const auto length = static_cast<std::uint32_t>(bytes_.size() - begin);
    texts_.push_back({begin, length, form_ == TextForm::kCsv && needs_quotes(text)});
    taken_slot(key).text = static_cast<std::uint32_t>(texts_.size());
}

void KeyedTexts::clear() {
    slots_.clear();
    used_ = 0;
    texts_.clear();
    bytes_.clear();
}

KeyedTexts::Slot& KeyedTexts::taken_slot(std::uint64_t key) {
    if (used_ * 2 >= slots_.size()) {
        grow();
    }
    Slot& slot = slots_[place_of(key)];
    if (slot.key == 0) {
        slot.key = key;
        ++used_;
    }
    return slot;
}

void KeyedTexts::grow() {
    constexpr std::size_t kFirstSlots = 256;
    std::vector<Slot> old(slots_.empty() ? kFirstSlots : 2 * slots_.size(), Slot{0, 0});
    old.swap(slots_);
    for (const Slot& slot : old) {
        if (slot.key != 0) {
            slots_[place_of(slot.key)] = slot;
        }
    }
}

}  // namespace msmemscope
