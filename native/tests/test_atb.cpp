// Observer atb: names of enums, places of kernels, strings in both layouts, and tensors in both layouts of Mki. It also
// tests the records of a pack that is not in order.
#include <unistd.h>

#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "core/writer/recorder.h"
#include "sources/ascend/atb/enum_names.h"
#include "sources/ascend/atb/events.h"
#include "sources/ascend/atb/layouts.h"
#include "sources/ascend/atb/path_budget.h"
#include "sources/ascend/atb/strings.h"
#include "tests/check.h"
#include "tests/log_reader.h"
#include "tests/shared_strings.h"

using namespace msmemscope;
using namespace msmemscope::atb;
using format::EventKind;

namespace {

using TextFunction = ReturnedString (*)(const void*);

bool is(Characters text, const std::string& expected) { return std::string(text.data, text.bytes) == expected; }

bool has_name(const char* name, const char* expected) { return std::strcmp(name, expected) == 0; }

void test_names() {
    CHECK(has_name(acl_dtype_name(-1), "ACL_DT_UNDEFINED"));
    CHECK(has_name(acl_dtype_name(0), "ACL_FLOAT"));
    CHECK(has_name(acl_dtype_name(5), "ACL_DT_UNDEFINED"));
    CHECK(has_name(acl_dtype_name(27), "ACL_BF16"));
    CHECK(has_name(acl_dtype_name(33), "ACL_COMPLEX32"));
    CHECK(has_name(acl_dtype_name(34), "ACL_DT_UNDEFINED"));
    CHECK(has_name(acl_format_name(2), "ACL_FORMAT_ND"));
    CHECK(has_name(acl_format_name(33), "ACL_FRACTAL_Z_3D"));
    CHECK(has_name(acl_format_name(47), "ACL_FORMAT_NCL"));
    CHECK(has_name(acl_format_name(1000), "ACL_FORMAT_UNDEFINED"));
    CHECK(has_name(mki_dtype_name(1), "TENSOR_DTYPE_FLOAT16"));
    CHECK(has_name(mki_dtype_name(27), "TENSOR_DTYPE_BF16"));
    CHECK(has_name(mki_dtype_name(28), "TENSOR_DTYPE_UNDEFINED"));
    CHECK(has_name(mki_format_name(29), "TENSOR_FORMAT_FRACTAL_NZ"));
    CHECK(has_name(mki_format_name(-5), "TENSOR_FORMAT_UNDEFINED"));
}

KernelPlace place_of(const std::string& folder) { return kernel_place_of(Characters{folder.data(), folder.size()}); }

void test_places() {
    const std::string before = "0_1967120/1/0_GraphOperation/1_ElewiseOperation/0_AddF16Kernel/before";
    CHECK(is(place_of(before).name, "0_AddF16Kernel"));
    CHECK(place_of(before).is_before);
    const std::string after = "0_AddF16Kernel/after";
    CHECK(is(place_of(after).name, "0_AddF16Kernel"));
    CHECK(!place_of(after).is_before);
    for (const std::string odd : {"", "/", "before", "/before", "0_1/0/1_Kernel", "0_1/before/1_Kernel"}) {
        CHECK_EQUAL(place_of(odd).name.bytes, 0U);
    }
}

std::string cxx11_text(const void* text) { return *static_cast<const std::string*>(text); }

void test_strings() {
    const auto cxx11 = reinterpret_cast<TextFunction>(reinterpret_cast<void (*)()>(&cxx11_text));
    const auto shared = reinterpret_cast<TextFunction>(shared_text_function());
    for (const std::string& text : {std::string(), std::string("short"), std::string(3000, 'l')}) {
        CHECK(is(characters_of(&text, StringLayout::kCxx11), text));
        ReturnedString result = cxx11(&text);
        CHECK(is(result.characters(StringLayout::kCxx11), text));
        result.give_back(StringLayout::kCxx11);

        const SharedString other(text.c_str());
        CHECK(is(characters_of(other.string(), StringLayout::kShared), text));
        for (int turn = 0; turn < 3; ++turn) {
            // A copy that shares the characters with the original, and the last owner of others.
            ReturnedString copy = shared(other.string());
            CHECK(is(copy.characters(StringLayout::kShared), text));
            copy.give_back(StringLayout::kShared);
            ReturnedString own = reinterpret_cast<TextFunction>(shared_doubled_text_function())(other.string());
            CHECK(is(own.characters(StringLayout::kShared), text + text));
            own.give_back(StringLayout::kShared);
        }
        CHECK(is(characters_of(other.string(), StringLayout::kShared), text));
    }
    CHECK_EQUAL(characters_of(nullptr, StringLayout::kCxx11).bytes, 0U);

    char cut[6];
    const std::string umlauts = "aäöü";  // two bytes each behind the first
    CHECK_EQUAL(copy_text(Characters{umlauts.data(), umlauts.size()}, cut, sizeof(cut)), 5U);
    CHECK(is(Characters{cut, std::strlen(cut)}, "aäö"));
    CHECK_EQUAL(copy_text(Characters{umlauts.data(), umlauts.size()}, cut, sizeof(cut) - 1), 3U);
    CHECK(is(Characters{cut, std::strlen(cut)}, "aä"));

    char written[64];
    TextWriter writer(written, sizeof(written));
    writer.number(0).text(",").number(-12).text(",").number(INT64_MIN);
    CHECK(is(Characters{writer.data(), writer.bytes()}, "0,-12,-9223372036854775808"));
    TextWriter full(written, 4);
    full.text("123").number(456);
    CHECK(is(Characters{full.data(), full.bytes()}, "1234"));
}

// Two vectors of tensors as launch parameters have them, with so many bytes between.
struct Launch {
    Launch(const MkiLayout& layout, std::size_t between)
        : layout_(layout),
          bytes_(2 * (layout.vector_count + 8) + between),
          second_(layout.vector_count + 8 + between) {}

    void* inputs() { return bytes_.data(); }
    void* outputs() { return bytes_.data() + second_; }
    void set_count(void* vector, std::uint64_t count) { store(vector, layout_.vector_count, count); }
    void set_tensor(void* vector, std::size_t index, std::uint64_t address, std::int64_t dim) {
        const std::size_t place = index * layout_.tensor_bytes;
        store(vector, place, std::int32_t{1});
        store(vector, place + 4, std::int32_t{2});
        store(vector, place + 8, dim);
        store(vector, place + 8 + 392, std::uint64_t{1});
        store(vector, place + layout_.data, address);
        store(vector, place + layout_.data_bytes, std::uint64_t{64});
    }

private:
    template <typename Value>
    static void store(void* vector, std::size_t place, Value value) {
        std::memcpy(static_cast<char*>(vector) + place, &value, sizeof(value));
    }

    const MkiLayout& layout_;
    std::vector<char> bytes_;
    std::size_t second_;
};

void test_mki_layouts() {
    for (const MkiLayout* layout : {&kMkiWithStrides, &kMkiWithoutStrides}) {
        Launch adjacent(*layout, 0);
        CHECK(mki_layout_of(adjacent.inputs(), adjacent.outputs()) == layout);
        CHECK(mki_layout_of(adjacent.outputs(), adjacent.inputs()) == layout);
        Launch apart(*layout, 4096);
        CHECK(mki_layout_of(apart.inputs(), apart.outputs()) == nullptr);
        apart.set_count(apart.inputs(), 3);
        CHECK(mki_layout_of(apart.inputs(), apart.outputs()) == layout);
        apart.set_count(apart.inputs(), 1000);
        CHECK(mki_layout_of(apart.inputs(), apart.outputs()) == nullptr);
    }
}

void test_path_budget() {
    static PathBudget budget;
    for (std::uint64_t hash = 1; hash <= PathBudget::kMostTexts; ++hash) {
        CHECK(budget.admits(hash, 1));
        CHECK(budget.admits(hash, 1));
    }
    CHECK(!budget.admits(1, 1));
    CHECK(budget.admits(PathBudget::kMostTexts, 1));  // it was met lately
    CHECK(budget.admits(1, 2));
}

void test_recording() {
    const ScratchFolder folder;
    CHECK(recorder::configure(folder.settings("devices=npu\nlevel=op,kernel\n").c_str()));

    static VariantPackStart pack{};
    const OperatorTexts texts{"Operation", Characters{"0_1/0/0_Operation", 17}};
    Tensor& input = pack.in_tensors.here[0];
    input.description.dtype = 1;
    input.description.format = 2;
    input.description.shape.dims[0] = 5;
    input.description.shape.count = ~std::uint64_t{0};  // more dimensions than there can be
    input.device_data = reinterpret_cast<void*>(0x1000);
    input.data_bytes = 10;
    pack.in_tensors.size = ~std::uint64_t{0};  // more tensors than there is room for; all but one have no address
    static Tensor on_heap[300] = {};
    for (Tensor& tensor : on_heap) {
        tensor.device_data = reinterpret_cast<void*>(0x2000);
    }
    pack.out_tensors.heap = on_heap;
    pack.out_tensors.size = 300;
    const OperatorCall call = record_operator_start(texts, &pack);
    CHECK(call.written);
    record_operator_end(call, &pack);

    Launch launch(kMkiWithStrides, 0);
    launch.set_count(launch.inputs(), 2);
    launch.set_tensor(launch.inputs(), 0, 0x3000, 7);
    launch.set_tensor(launch.inputs(), 1, 0, 7);  // left out
    launch.set_count(launch.outputs(), 5000);
    for (std::size_t index = 0; index < 49; ++index) {
        launch.set_tensor(launch.outputs(), index, 0x4000, 7);
    }
    record_kernel(Characters{"0_1/0/0_Operation/0_Kernel/before", 33}, launch.inputs(), launch.outputs());
    record_kernel(Characters{"0_1/0/0_Operation/0_Kernel", 26}, launch.inputs(), launch.outputs());
    record_kernel(Characters{"0_1/0/0_Operation/0_Kernel/after", 32}, nullptr, nullptr);
    recorder::close();

    const tests::Log log = tests::read_log(folder.path(), getpid());
    const auto of_kind = [&log](EventKind kind, std::uint64_t address) {
        std::uint64_t found = 0;
        for (const format::Record& record : log.of(kind)) {
            found += record.address == address ? 1U : 0U;
        }
        return found;
    };
    CHECK_EQUAL(of_kind(EventKind::kAtbStart, 0), 1U);
    CHECK_EQUAL(of_kind(EventKind::kAtbEnd, 0), 1U);
    CHECK_EQUAL(of_kind(EventKind::kKernelStart, 0), 1U);
    CHECK_EQUAL(of_kind(EventKind::kKernelEnd, 0), 1U);
    CHECK_EQUAL(of_kind(EventKind::kAccessUnknown, 0x1000), 2U);
    CHECK_EQUAL(of_kind(EventKind::kAccessWrite, 0x2000), 2U * SmallVector<Tensor>::kMostOnHeap);
    CHECK_EQUAL(of_kind(EventKind::kAccessUnknown, 0x3000), 1U);
    CHECK_EQUAL(of_kind(EventKind::kAccessWrite, 0x4000), MkiLayout::kMostTensors);
    CHECK_EQUAL(of_kind(EventKind::kAccessUnknown, 0), 0U);
}

}  // namespace

int main() {
    test_names();
    test_places();
    test_strings();
    test_mki_layouts();
    test_path_budget();
    test_recording();
    return 0;
}
