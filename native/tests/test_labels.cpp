// Labels of threads and blocks, given before and while events are recorded.
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include "core/observe/blocks.h"
#include "core/writer/recorder.h"
#include "core/writer/texts.h"
#include "tests/check.h"
#include "tests/hooked.h"
#include "tests/log_reader.h"

using namespace msmemscope;

namespace {

void* allocate(std::size_t bytes) {
    void* memory = nullptr;
    CHECK(tests::hooked_posix_memalign(&memory, 64, bytes) == 0);
    return memory;
}

std::uint64_t place(const void* memory) { return reinterpret_cast<std::uint64_t>(memory); }

std::uint32_t number(const char* text) { return texts::number_of(text, std::strlen(text)); }

std::string text_of(const tests::Log& log, std::uint64_t string_id) {
    for (const tests::Definition& definition : log.definitions) {
        if (definition.header.kind == format::DefinitionKind::kString && definition.header.id == string_id) {
            return definition.payload;
        }
    }
    return string_id == 0 ? "" : "undefined";
}

const format::Record& record_of(const std::vector<format::Record>& records, std::int64_t size) {
    for (const format::Record& record : records) {
        if (record.size == size) {
            return record;
        }
    }
    CHECK(!"no record of that size");
    return records.front();
}

void check_numbers() {
    CHECK_EQUAL(texts::number_of("", 0), 0U);
    CHECK_EQUAL(number("5one"), number("5one"));
    CHECK(number("5one") != number("5two"));
    CHECK_EQUAL(texts::joined(number("5one"), number("6two")), number("5one\n6two"));
    CHECK_EQUAL(texts::joined(number("5one"), number("5two")), number("5one\n6two"));
    CHECK_EQUAL(texts::joined(number("3one\n5x"), number("5y\n3two")), number("5x\n6y\n3two"));
    CHECK_EQUAL(texts::joined(0, number("5two")), number("5two"));
    CHECK_EQUAL(texts::joined(number("5one\n6x\n7y"), number("6two")), number("5one\n6x\n7y"));
    CHECK_EQUAL(texts::joined(number("5one"), number("5one")), number("5one"));
    CHECK_EQUAL(texts::joined(number("5one"), 0), number("5one"));
    std::vector<std::thread> threads;
    std::vector<std::uint32_t> found(8);
    for (std::size_t index = 0; index < found.size(); ++index) {
        threads.emplace_back([&found, index] {
            for (int text = 0; text < 500; ++text) {
                found[index] = number(("5text" + std::to_string(text)).c_str());
            }
        });
    }
    for (std::thread& thread : threads) {
        thread.join();
    }
    for (const std::uint32_t one : found) {
        CHECK_EQUAL(one, found.front());
    }
}

}  // namespace

int main() {
    ScratchFolder folder;
    CHECK(!recorder::label_block(4096, number("5nothing")));  // nothing is configured
    CHECK(recorder::configure(folder.settings("collect_mode=deferred\n").c_str()));
    check_numbers();

    // Before anything is recorded: labels wait for the block's record.
    recorder::set_thread_labels(number("5early"));
    void* const early = allocate(1000);
    recorder::set_thread_labels(0);
    void* const plain = allocate(1100);
    CHECK(recorder::label_block(place(early), number("6more")));
    CHECK(recorder::label_block(place(early) + 999, number("3weight")));  // anywhere in the block
    CHECK(!recorder::label_block(place(early) + 1000 * 1000 * 1000, number("3weight")));
    CHECK_EQUAL(tests::count_captures(folder.path()), 0U);
    {
        const RecordingScope scope(true);
        recorder::start_collecting(scope);
    }
    recorder::set_thread_labels(number("5during"));
    recorder::set_pass(recorder::Pass::kBackward);
    void* const during = allocate(2000);
    recorder::set_pass(recorder::Pass::kForward);
    std::thread([] { tests::hooked_free(allocate(3000)); }).join();  // another thread has no labels
    CHECK(recorder::label_block(place(during), number("3weight")));
    CHECK(recorder::label_block(place(during), number("3weight")));  // the same again is no news
    CHECK(recorder::label_block(place(during), number("3gradient")));
    CHECK(recorder::label_block(place(plain), number("5late")));
    CHECK_EQUAL(recorder::live_bytes(format::Pool::kHost, format::kDeviceCpu), 4100U);

    const pid_t child = fork();
    if (child == 0) {
        // Labels pass to the child, in whose log their texts are defined anew.
        tests::hooked_free(allocate(4000));
        recorder::close();
        _exit(0);
    }
    int status = 0;
    CHECK(waitpid(child, &status, 0) == child && status == 0);
    tests::hooked_free(early);
    tests::hooked_free(plain);
    tests::hooked_free(during);
    CHECK(!recorder::label_block(place(during), number("3weight")));
    recorder::close();

    const tests::Log log = tests::read_log(folder.path(), getpid());
    const auto allocations = log.of(format::EventKind::kMalloc);
    CHECK(text_of(log, record_of(allocations, 1000).extra) == "5early\n6more\n3weight");
    CHECK(text_of(log, record_of(allocations, 1100).extra).empty());
    CHECK(text_of(log, record_of(allocations, 2000).extra) == "5during");
    CHECK_EQUAL(record_of(allocations, 2000).flags, format::kFlagBackward);
    CHECK(text_of(log, record_of(allocations, 3000).extra).empty());
    CHECK_EQUAL(record_of(allocations, 3000).flags, 0);
    const auto labels = log.of(format::EventKind::kOwner);
    CHECK_EQUAL(labels.size(), 3U);
    CHECK(text_of(log, labels[0].attribute_id) == "3weight");
    CHECK(text_of(log, labels[1].attribute_id) == "3gradient");
    CHECK(text_of(log, labels[2].attribute_id) == "5late");
    CHECK_EQUAL(labels[1].extra, record_of(allocations, 2000).sequence);
    CHECK_EQUAL(labels[2].extra, record_of(allocations, 1100).sequence);
    CHECK_EQUAL(labels[2].size, 1100);

    const tests::Log forked = tests::read_log(folder.path(), child);
    CHECK(text_of(forked, record_of(forked.of(format::EventKind::kMalloc), 4000).extra) == "5during");
}
