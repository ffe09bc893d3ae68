// Pickles: what is plain data and what is not, and that no damage leads outside of the content (with sanitizers).
#include <cstddef>
#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "offline/plain_pickle/plain_pickle.h"
#include "tests/check.h"

using namespace msmemscope;

namespace {

using namespace std::string_literals;

// {"a": [1, 2.5, (True,)], 7: b"x"}, as protocol 4 has it.
const std::string kPlain =
    "\x80\x04\x95\x1e\0\0\0\0\0\0\0}\x94(\x8c\x01"
    "a\x94]\x94(K\x01G@\x04\0\0\0\0\0\0\x88\x85\x94"
    "eK\x07"
    "C\x01x\x94u."s;

PickleFault fault_of(const std::string& content) {
    const std::vector<char> exact(content.begin(), content.end());
    return walk_pickle({exact.data(), exact.size()}).fault;
}

void test_plain_data() {
    const PickleWalk walk = walk_pickle(kPlain);
    CHECK(walk.fault == PickleFault::kNone);
    CHECK_EQUAL(walk.place, kPlain.size() - 1);
    CHECK(walk.object_bytes > 300 && walk.object_bytes < 2'000);
}

void test_faults() {
    CHECK(fault_of("") == PickleFault::kEndsEarly);
    CHECK(fault_of("\x80\x04N") == PickleFault::kEndsEarly);
    CHECK(fault_of("\x80\x04.") == PickleFault::kNothingThere);
    CHECK(fault_of("\x80\x04(.") == PickleFault::kNothingThere);
    CHECK(fault_of("\x80\x04N(a.") == PickleFault::kNothingThere);
    CHECK(fault_of("\x80\x04}K\x01s.") == PickleFault::kNothingThere);
    CHECK(fault_of("\x80\x04}(K\x01u.") == PickleFault::kNothingThere);
    CHECK(fault_of("\x80\x04"
                   "cos\nsystem\n.") == PickleFault::kNotPlain);
    CHECK(fault_of("\x80\x04h\x01.") == PickleFault::kMemoNumber);
    CHECK(fault_of("\x80\x04Nr\xff\xff\0\0."s) == PickleFault::kMemoNumber);
    CHECK(fault_of("\x80\x04X\xff\xff\xff\xff.") == PickleFault::kTooLong);
    CHECK(fault_of("\x80\x04\x8a\x0a" + std::string(10, 'x') + ".") == PickleFault::kLargeNumber);
    CHECK(fault_of("\x80\x04\x8a\x09" + std::string(8, '\xff') + "\0."s) == PickleFault::kNone);
    CHECK(fault_of("\x80\x04\x8a\x09" + std::string(9, '\xff') + ".") == PickleFault::kLargeNumber);
}

// Hashes of tuples and of fractions are no secret: a million of them can be equal.
void test_keys() {
    CHECK(fault_of("\x80\x04})Ns.") == PickleFault::kKey);
    CHECK(fault_of("\x80\x04}K\x01\x85Ns.") == PickleFault::kKey);
    CHECK(fault_of("\x80\x04}(K\x01K\x02\x86Nu.") == PickleFault::kKey);
    CHECK(fault_of("\x80\x04}(K\x01NG\0\0\0\0\0\0\0\0Nu."s) == PickleFault::kKey);
    CHECK(fault_of("\x80\x04)\x94}h\0Ns."s) == PickleFault::kKey);
    CHECK(fault_of("\x80\x04\x8c\x01x\x94}h\0Ns."s) == PickleFault::kNone);
}

// Objects that take memory are counted, although the file has only a few bytes of each.
void test_estimate() {
    const PickleWalk lists = walk_pickle("\x80\x04(" + std::string(1'000'000, ']') + "t.");
    CHECK(lists.fault == PickleFault::kNone);
    CHECK(lists.object_bytes > 64'000'000 && lists.object_bytes < 200'000'000);
}

void test_damage() {
    std::mt19937 random(7);
    for (int round = 0; round < 200'000; ++round) {
        std::string content = kPlain;
        for (std::size_t change = 0; change < 1 + random() % 4; ++change) {
            content[random() % content.size()] = static_cast<char>(random());
        }
        content.resize(random() % 3 == 0 ? random() % content.size() : content.size());
        const std::vector<char> exact(content.begin(), content.end());
        const PickleWalk walk = walk_pickle({exact.data(), exact.size()});
        CHECK(walk.place <= exact.size());
        CHECK(walk.fault != PickleFault::kNone || exact[walk.place] == '.');
    }
}

}  // namespace

int main() {
    test_plain_data();
    test_faults();
    test_keys();
    test_estimate();
    test_damage();
}
