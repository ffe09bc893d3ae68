// Texts that rows name by number: each is put into its form once, however many rows show it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "offline/dump_rows/hash_secret.h"
#include "offline/dump_writing/byte_buffer.h"
#include "offline/dump_writing/numbers.h"

namespace msmemscope {

// How texts are written.
enum class TextForm : std::uint8_t {
    kPlain,
    kCsv,  // quotes doubled; a text with certain letters needs quotes around its cell
};

// Whether a cell with this text needs quotes around it in a CSV file.
bool needs_quotes(std::string_view text);

// Appends a text as its form has it.
void put_text(ByteBuffer& target, std::string_view text, TextForm form);

struct KeyedText {
    std::string_view text;
    bool is_quoted;
};

class KeyedTexts {
public:
    explicit KeyedTexts(TextForm form) : form_(form) {}

    // Appends those of some keys that were not asked for before, each once. 0 is no key. From then on they have no
    // text, until one is added.
    void find_new(const Numbers& keys, std::size_t count, std::vector<std::uint64_t>& found);

    // Gives a key its text, once.
    void add(std::uint64_t key, std::string_view text);

    // Forgets everything.
    void clear();

    // About how much memory it takes.
    std::size_t bytes() const { return bytes_.size() + slots_.size() * sizeof(Slot) + texts_.size() * sizeof(Text); }

    // Returns whether there is a text. It stays where it is until the next one is added.
    bool find(std::uint64_t key, KeyedText& found) const {
        if (slots_.empty() || key == 0) {
            return false;
        }
        const Slot& slot = slots_[place_of(key)];
        if (slot.key != key || slot.text == 0) {
            return false;
        }
        const Text& text = texts_[slot.text - 1];
        found = {{bytes_.data() + text.begin, text.length}, text.is_quoted};
        return true;
    }

private:
    struct Slot {
        std::uint64_t key;   // 0 for an empty one
        std::uint32_t text;  // from 1 on; 0 for none
    };

    struct Text {
        std::size_t begin;
        std::uint32_t length;
        bool is_quoted;
    };

    std::size_t place_of(std::uint64_t key) const {
        std::size_t place = secret_.mixed(key) & (slots_.size() - 1);
        while (slots_[place].key != 0 && slots_[place].key != key) {
            place = (place + 1) & (slots_.size() - 1);
        }
        return place;
    }

    // The slot of a key, which is there from then on.
    Slot& taken_slot(std::uint64_t key);
    void grow();

    const HashSecret secret_ = hash_secret();
    const TextForm form_;
    std::vector<Slot> slots_;
    std::size_t used_ = 0;
    std::vector<Text> texts_;
    ByteBuffer bytes_;
};

}  // namespace msmemscope
