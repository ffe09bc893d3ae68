// Pages that were written, as the kernel tells it: each write is told once, to everybody who follows the page.
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <cstring>
#include <utility>

#include "tests/check.h"
#include "watch/fingerprint.h"
#include "watch/written_pages.h"

using namespace msmemscope::watch;

namespace {

constexpr int kSkipped = 77;
constexpr std::uint64_t kBytes = std::uint64_t{4} << 20U;

class Mapping {
public:
    Mapping() : memory_(mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)) {
        CHECK(memory_ != MAP_FAILED);
        std::memset(memory_, 1, kBytes);
    }
    ~Mapping() { munmap(memory_, kBytes); }
    Mapping(const Mapping&) = delete;
    Mapping& operator=(const Mapping&) = delete;

    std::uint64_t address() const { return reinterpret_cast<std::uint64_t>(memory_); }
    char* bytes() const { return static_cast<char*>(memory_); }

private:
    void* memory_;
};

std::uint64_t page_bytes() { return static_cast<std::uint64_t>(sysconf(_SC_PAGESIZE)); }

Vector<Range> taken(WrittenPages& pages) {
    Vector<Range> written;
    CHECK(pages.take(written));
    return written;
}

void a_write_is_told_once() {
    const Mapping memory;
    WrittenPages pages;
    CHECK(pages.follow(memory.address(), memory.address() + kBytes));
    CHECK_EQUAL(taken(pages).size(), 0U);
    memory.bytes()[3 * page_bytes() + 17] = 2;
    memory.bytes()[4 * page_bytes()] = 1;  // the same value as before: a write all the same
    memory.bytes()[kBytes - 1] = 2;
    const Vector<Range> written = taken(pages);
    CHECK_EQUAL(written.size(), 2U);
    CHECK_EQUAL(written[0].begin, memory.address() + 3 * page_bytes());
    CHECK_EQUAL(written[0].end, memory.address() + 5 * page_bytes());
    CHECK_EQUAL(written[1].end, memory.address() + kBytes);
    CHECK_EQUAL(taken(pages).size(), 0U);
}

void parts_of_pages_are_whole_pages() {
    const Mapping memory;
    WrittenPages pages;
    CHECK(pages.follow(memory.address() + 100, memory.address() + kBytes / 2 + 1));
    memory.bytes()[0] = 2;  // beside what is followed, on its first page
    memory.bytes()[kBytes / 2 + page_bytes()] = 2;
    const Vector<Range> written = taken(pages);
    CHECK_EQUAL(written.size(), 1U);
    CHECK_EQUAL(written[0].begin, memory.address());
}

void the_kernel_writes_too() {
    const Mapping memory;
    WrittenPages pages;
    CHECK(pages.follow(memory.address(), memory.address() + kBytes));
    int ends[2];
    CHECK_EQUAL(pipe(ends), 0);
    CHECK_EQUAL(write(ends[1], "changed", 7), 7);
    CHECK_EQUAL(read(ends[0], memory.bytes() + 9 * page_bytes(), 7), 7);
    CHECK_EQUAL(std::memcmp(memory.bytes() + 9 * page_bytes(), "changed", 7), 0);
    CHECK_EQUAL(taken(pages).size(), 1U);
    CHECK_EQUAL(madvise(memory.bytes() + 11 * page_bytes(), page_bytes(), MADV_DONTNEED), 0);
    CHECK_EQUAL(memory.bytes()[11 * page_bytes()], 0);
    CHECK_EQUAL(taken(pages).size(), 1U);
    close(ends[0]);
    close(ends[1]);
}

void many_pieces_are_in_order() {
    const Mapping memory;
    WrittenPages pages;
    CHECK(pages.follow(memory.address(), memory.address() + kBytes));
    for (std::uint64_t offset = 0; offset < kBytes / 8; offset += 2 * page_bytes()) {
        memory.bytes()[offset] = 3;
    }
    const Vector<Range> written = taken(pages);
    CHECK_EQUAL(written.size(), kBytes / 8 / (2 * page_bytes()));
    for (std::size_t index = 1; index < written.size(); ++index) {
        CHECK(written[index - 1].end < written[index].begin);
    }
}

void everybody_who_follows_a_page_is_told() {
    const Mapping memory;
    WrittenPages whole;
    WrittenPages part;
    CHECK(whole.follow(memory.address(), memory.address() + kBytes));
    memory.bytes()[kBytes - 1] = 2;
    CHECK(part.follow(memory.address() + kBytes / 2, memory.address() + kBytes));
    memory.bytes()[kBytes - 2 * page_bytes()] = 2;
    CHECK_EQUAL(taken(part).size(), 1U);
    const Vector<Range> written = taken(whole);
    CHECK(!written.empty());
    CHECK_EQUAL(written.back().end, memory.address() + kBytes);
    CHECK_EQUAL(written.front().begin, memory.address() + kBytes - 2 * page_bytes());
    memory.bytes()[kBytes / 2] = 2;
    CHECK_EQUAL(taken(whole).size(), 1U);
    CHECK_EQUAL(taken(part).size(), 1U);
}

void one_that_ends_makes_what_is_amid_it_begin_again() {
    const Mapping memory;
    WrittenPages part;
    CHECK(part.follow(memory.address() + kBytes / 4, memory.address() + kBytes / 2));
    {
        WrittenPages whole;
        CHECK(whole.follow(memory.address(), memory.address() + kBytes));
    }
    memory.bytes()[kBytes / 4] = 2;
    Vector<Range> written;
    CHECK(!part.take(written));
    CHECK(!part.is_following());
    CHECK(part.follow(memory.address() + kBytes / 4, memory.address() + kBytes / 2));
    memory.bytes()[kBytes / 4] = 3;
    CHECK_EQUAL(taken(part).size(), 1U);
}

void one_that_ends_leaves_its_neighbours_alone() {
    const Mapping memory;
    const std::uint64_t page = page_bytes();
    const std::uint64_t part = kBytes / 4;
    WrittenPages first;
    WrittenPages last;
    CHECK(first.follow(memory.address(), memory.address() + part + page));
    CHECK(last.follow(memory.address() + 2 * part - page, memory.address() + kBytes));
    WrittenPages whole;
    CHECK(whole.follow(memory.address(), memory.address() + kBytes));
    {
        WrittenPages between;
        CHECK(between.follow(memory.address() + part, memory.address() + 2 * part));
    }
    memory.bytes()[part] = 2;
    memory.bytes()[part + page] = 2;
    memory.bytes()[2 * part - page] = 2;
    CHECK_EQUAL(taken(first).size(), 1U);
    CHECK_EQUAL(taken(last).size(), 1U);
    CHECK_EQUAL(taken(whole).size(), 3U);
    whole = WrittenPages();
    memory.bytes()[part] = 3;
    memory.bytes()[2 * part - page] = 3;
    CHECK_EQUAL(taken(first).size(), 1U);
    CHECK_EQUAL(taken(last).size(), 1U);
}

// Behind it others follow without a gap: how far they reach is nothing to it.
void who_follows_a_part_twice_can_stop() {
    const Mapping memory;
    constexpr std::uint64_t part = WrittenPages::kLeastBytes;
    Vector<WrittenPages> parts(kBytes / part);
    for (std::size_t number = 0; number < parts.size(); ++number) {
        CHECK(parts[number].follow(memory.address() + number * part, memory.address() + (number + 1) * part));
    }
    for (std::size_t number = 0; number < parts.size(); ++number) {
        WrittenPages again;
        CHECK(again.follow(memory.address() + number * part, memory.address() + (number + 1) * part));
        again = WrittenPages();
        memory.bytes()[number * part] = 2;
        CHECK_EQUAL(taken(parts[number]).size(), 1U);
    }
}

void who_asks_seldom_keeps_little() {
    const Mapping memory;
    WrittenPages seldom;
    WrittenPages often;
    CHECK(seldom.follow(memory.address(), memory.address() + kBytes));
    CHECK(often.follow(memory.address(), memory.address() + kBytes));
    for (int turn = 0; turn < 5000; ++turn) {
        memory.bytes()[static_cast<std::uint64_t>(turn % 7) * 2 * page_bytes()] = 2;
        CHECK_EQUAL(taken(often).size(), 1U);
    }
    const auto written = taken(seldom);
    CHECK(written.size() <= 1024U);
    CHECK(written.front().begin <= memory.address());
    CHECK(written.front().end >= memory.address() + 13 * page_bytes());
}

void one_question_is_enough_for_neighbours() {
    const Mapping memory;
    WrittenPages parts[4];
    for (std::uint64_t part = 0; part < 4; ++part) {
        CHECK(parts[part].follow(memory.address() + part * kBytes / 4, memory.address() + (part + 1) * kBytes / 4));
    }
    memory.bytes()[kBytes / 2] = 2;
    WrittenPages::ask_from(memory.address());
    memory.bytes()[0] = 2;  // behind the question
    CHECK_EQUAL(taken(parts[0]).size(), 0U);
    CHECK_EQUAL(taken(parts[2]).size(), 1U);
    WrittenPages::forget_answer();
    CHECK_EQUAL(taken(parts[0]).size(), 1U);
    CHECK_EQUAL(taken(parts[2]).size(), 0U);
    // Behind a part that is not followed another question is asked.
    parts[1] = WrittenPages();
    memory.bytes()[kBytes - 1] = 2;
    WrittenPages::ask_from(memory.address());
    memory.bytes()[kBytes / 2] = 2;
    WrittenPages::ask_from(memory.address() + kBytes / 2);
    memory.bytes()[kBytes / 2] = 2;
    CHECK_EQUAL(taken(parts[3]).size(), 1U);
    CHECK_EQUAL(taken(parts[2]).size(), 1U);
    WrittenPages::forget_answer();
    CHECK_EQUAL(taken(parts[2]).size(), 1U);
}

void it_can_be_moved() {
    const Mapping memory;
    Vector<WrittenPages> list;
    for (int turn = 0; turn < 5; ++turn) {
        WrittenPages pages;
        if (turn == 0) {
            CHECK(pages.follow(memory.address(), memory.address() + kBytes));
        }
        list.push_back(std::move(pages));
    }
    memory.bytes()[0] = 2;
    CHECK_EQUAL(taken(list[0]).size(), 1U);
    list.erase(list.begin() + 1);
    memory.bytes()[0] = 3;
    CHECK_EQUAL(taken(list[0]).size(), 1U);
}

void other_memory_at_the_same_place_is_not_known() {
    const Mapping memory;
    WrittenPages pages;
    CHECK(pages.follow(memory.address(), memory.address() + kBytes));
    CHECK(mmap(memory.bytes(), kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) ==
          memory.bytes());
    Vector<Range> written;
    CHECK(!pages.take(written));
    CHECK(!pages.is_following());
}

void little_and_unmapped_memory_is_not_followed() {
    const Mapping memory;
    WrittenPages pages;
    CHECK(!pages.follow(memory.address(), memory.address() + WrittenPages::kLeastBytes - 1));
    CHECK(!pages.follow(page_bytes(), page_bytes() + kBytes));
    CHECK(!pages.is_following());
}

void what_is_written_all_the_time_is_left_alone() {
    const Mapping memory;
    WrittenPages pages;
    CHECK(pages.follow(memory.address(), memory.address() + kBytes));
    for (int look = 0; look < 4; ++look) {
        std::memset(memory.bytes(), look + 2, kBytes);
        CHECK_EQUAL(taken(pages).size(), 1U);
    }
    CHECK(!pages.is_following());
    int waited = 0;
    while (!pages.follow(memory.address(), memory.address() + kBytes)) {
        CHECK(++waited <= 1000);
    }
    CHECK(waited > 100);
}

void a_child_has_its_own() {
    const Mapping memory;
    WrittenPages pages;
    CHECK(pages.follow(memory.address(), memory.address() + kBytes));
    const pid_t child = fork();
    if (child == 0) {
        WrittenPages::become_child();
        Vector<Range> written;
        memory.bytes()[0] = 7;
        const bool told = pages.take(written);
        WrittenPages own;
        const bool follows = own.follow(memory.address(), memory.address() + kBytes);
        memory.bytes()[0] = 8;
        const bool takes = own.take(written) && written.size() == 1;
        _exit(!told && follows && takes ? 0 : 1);
    }
    int status = 0;
    CHECK_EQUAL(waitpid(child, &status, 0), child);
    CHECK_EQUAL(status, 0);
    CHECK_EQUAL(taken(pages).size(), 0U);
    memory.bytes()[0] = 2;
    CHECK_EQUAL(taken(pages).size(), 1U);
}

void a_look_at_what_was_written_is_a_look_at_all() {
    const Mapping memory;
    for (const bool keeps_content : {false, true}) {
        Fingerprint narrowed(keeps_content, Checksum::kHash64);
        Fingerprint whole(keeps_content, Checksum::kHash64);
        Content content;
        content.address = memory.address() + 64;  // as allocators align: segments and pages begin at different places
        content.run_bytes = kBytes - 1000;
        const Reading reading{Reading::kDirect, nullptr};
        WrittenPages pages;
        CHECK(pages.follow(content.begin(), content.end()));
        Change first;
        CHECK(narrowed.look(content, reading, first));
        CHECK(whole.look(content, reading, first));
        for (int turn = 0; turn < 50; ++turn) {
            for (int number = 0; number < turn; ++number) {
                memory.bytes()[(static_cast<std::uint64_t>(turn) * 7919 + static_cast<std::uint64_t>(number) * 104729) %
                               kBytes] += 1;
            }
            const Vector<Range> written = taken(pages);
            Change by_pages;
            Change by_all;
            CHECK(narrowed.look_at_written(content, reading, written, by_pages));
            CHECK(whole.look(content, reading, by_all));
            CHECK_EQUAL(narrowed.checksum(), whole.checksum());
            CHECK_EQUAL(by_pages.happened, by_all.happened);
            CHECK_EQUAL(by_pages.changed_bytes, by_all.changed_bytes);
            CHECK_EQUAL(by_pages.range_count, by_all.range_count);
            CHECK_EQUAL(by_pages.first, by_all.first);
            CHECK_EQUAL(by_pages.last, by_all.last);
        }
    }
}

void who_is_distrusted_is_not_asked() {
    const Mapping memory;
    WrittenPages pages;
    CHECK(pages.follow(memory.address(), memory.address() + kBytes));
    WrittenPages::distrust();
    Vector<Range> written;
    CHECK(!pages.take(written));
    CHECK(!pages.follow(memory.address(), memory.address() + kBytes));
}

}  // namespace

int main() {
    {
        const Mapping memory;
        WrittenPages pages;
        if (!pages.follow(memory.address(), memory.address() + WrittenPages::kLeastBytes)) {
            std::puts("skipped: this kernel does not tell which pages were written, or may not be asked");
            return kSkipped;
        }
    }
    who_follows_a_part_twice_can_stop();  // first: nothing longer was followed before
    a_write_is_told_once();
    parts_of_pages_are_whole_pages();
    the_kernel_writes_too();
    many_pieces_are_in_order();
    everybody_who_follows_a_page_is_told();
    one_that_ends_makes_what_is_amid_it_begin_again();
    one_that_ends_leaves_its_neighbours_alone();
    who_asks_seldom_keeps_little();
    one_question_is_enough_for_neighbours();
    it_can_be_moved();
    other_memory_at_the_same_place_is_not_known();
    little_and_unmapped_memory_is_not_followed();
    what_is_written_all_the_time_is_left_alone();
    a_child_has_its_own();
    a_look_at_what_was_written_is_a_look_at_all();
    who_is_distrusted_is_not_asked();
    return 0;
}
