#include "rehearsal.h"

#include <bit>
#include <iterator>
#include <mutex>
#include <new>
#include <unordered_set>

#include "kernel.h"
#include "rehearsal_stage.h"

namespace virtual_npu {
namespace {

enum class Outcome {
    kAccepted,
    kRefused,
    kShapesDoNotSuffice,  // nothing is known yet
    kUndecided,           // only the caller's data will show it
};

Outcome perform(const PlannedCall& call, StandIns kind, std::string* text) {
    const Stage stage(kind);
    try {
        with_guards(call.compute, call.arguments);
        return Outcome::kAccepted;
    } catch (const ShapesDoNotSuffice&) {
        return Outcome::kShapesDoNotSuffice;
    } catch (const TrueDataNeeded&) {
        return Outcome::kUndecided;
    } catch (const c10::LinAlgError&) {  // such as a singular matrix
        return Outcome::kUndecided;
    } catch (const c10::OutOfMemoryError&) {
        return Outcome::kUndecided;
    } catch (const std::bad_alloc&) {
        return Outcome::kUndecided;
    } catch (const c10::NotImplementedError& error) {
        if (kind == StandIns::kShapes) return Outcome::kShapesDoNotSuffice;
        *text = error.what_without_backtrace();
    } catch (const c10::Error& error) {
        *text = error.what_without_backtrace();
    } catch (const std::exception& error) {
        *text = error.what();
    }
    return Outcome::kRefused;
}

// The first values with which the kernel works decide; if it works with none, the text is that of the zeros.
Outcome perform_on_data(const PlannedCall& call, std::string* text) {
    Outcome outcome = perform(call, StandIns::kZeros, text);
    std::string another_text;
    for (const StandIns kind : {StandIns::kOnesAmongFloats, StandIns::kOnes}) {
        if (outcome == Outcome::kRefused) outcome = perform(call, kind, &another_text);
    }
    return outcome;
}

// Hashes of accepted calls. Each has its place in one of the sets. If a set is full, a new hash takes the place of an
// earlier one. The earlier call is then rehearsed again.
struct AcceptedCalls {
    std::atomic<uint64_t> hashes[4];
    std::atomic<uint32_t> count;
};
AcceptedCalls accepted_calls[size_t{1} << 12];

AcceptedCalls& set_of(const Signature& signature) {
    return accepted_calls[signature.all() % std::size(accepted_calls)];
}

std::mutex types_guard;
std::unordered_set<uint64_t>& accepted_types() {
    static auto* types = new std::unordered_set<uint64_t>();
    return *types;
}

bool are_types_accepted(const Signature& signature) {
    const std::lock_guard<std::mutex> lock(types_guard);
    return accepted_types().count(signature.types()) > 0;
}

void remember(const Signature& signature) {
    AcceptedCalls& set = set_of(signature);
    const uint32_t place = set.count.fetch_add(1, std::memory_order_relaxed) % std::size(set.hashes);
    set.hashes[place].store(signature.all(), std::memory_order_relaxed);
    // Where there is nothing to compute, libtorch may not come to the place where data types matter.
    if (signature.has_empty_tensor()) return;
    const std::lock_guard<std::mutex> lock(types_guard);
    accepted_types().insert(signature.types());
}

}  // namespace

void Signature::add(const aclTensor* tensor) {
    if (tensor == nullptr) {
        mix_type(UINT64_MAX);
        return;
    }
    if (!is_object(tensor, ObjectKind::kTensor)) return;
    mix_type(static_cast<uint64_t>(tensor->data_type) << 32 | tensor->dimensions);
    for (uint32_t dimension = 0; dimension < tensor->dimensions; ++dimension) {
        mix(static_cast<uint64_t>(tensor->sizes[dimension]));
        mix(static_cast<uint64_t>(tensor->strides[dimension]));
        has_empty_tensor_ = has_empty_tensor_ || tensor->sizes[dimension] == 0;
    }
}

// Whether a scalar fits into a data type is a question of its sign and magnitude.
void Signature::add_factor(const aclScalar* scalar) {
    if (scalar == nullptr) {
        mix_type(UINT64_MAX);
        return;
    }
    if (!is_object(scalar, ObjectKind::kScalar)) return;
    uint64_t words[2];
    std::memcpy(words, scalar->value, sizeof words);
    mix_type(static_cast<uint64_t>(scalar->data_type));
    constexpr unsigned kFractionBits = 52;
    if (scalar->data_type == kDouble) {
        mix_type(words[0] >> kFractionBits);
    } else if (scalar->data_type == kInt64) {
        const bool negative = static_cast<int64_t>(words[0]) < 0;
        mix_type(static_cast<uint64_t>(std::bit_width(negative ? ~words[0] : words[0])) * 2 + negative);
    } else {
        mix(words[0]);
        mix(words[1]);
    }
}

void Signature::add(const aclScalar* scalar) {
    add_factor(scalar);
    if (scalar == nullptr || has_wrong_object_) return;
    uint64_t words[2];
    std::memcpy(words, scalar->value, sizeof words);
    mix(words[0]);
    mix(words[1]);
}

void Signature::add_factors(const void* object) {
    const auto kind = object == nullptr ? ObjectKind::kTensor : *static_cast<const ObjectKind*>(object);
    if (kind == ObjectKind::kScalar) {
        add_factor(static_cast<const aclScalar*>(object));
    } else if (kind == ObjectKind::kScalarList) {
        const auto* list = static_cast<const aclScalarList*>(object);
        mix(list->count);
        for (uint64_t index = 0; index < list->count; ++index) add_factor(list->elements[index]);
    } else {
        add(static_cast<const aclTensor*>(object));
    }
}

void Signature::add(const std::string& text) {
    mix(text.size());
    for (const char letter : text) mix(static_cast<unsigned char>(letter));
}

bool is_accepted(const Signature& signature) {
    for (const std::atomic<uint64_t>& hash : set_of(signature).hashes) {
        if (hash.load(std::memory_order_relaxed) == signature.all()) return true;
    }
    return false;
}

int rehearse(const PlannedCall& call, const Signature& signature) {
    std::string text;
    Outcome outcome = Outcome::kShapesDoNotSuffice;
    if (!call.needs_data->load(std::memory_order_relaxed)) {
        outcome = perform(call, StandIns::kShapes, &text);
    }
    if (outcome != Outcome::kAccepted) {
        // Also after a refusal: the text is then that of the CPU. And where only the rehearsal on shapes is at fault,
        // it is not made again.
        outcome = perform_on_data(call, &text);
        if (outcome == Outcome::kAccepted) call.needs_data->store(true, std::memory_order_relaxed);
    } else if (!are_types_accepted(signature)) {
        outcome = perform_on_data(call, &text);
    }
    if (outcome == Outcome::kAccepted || outcome == Outcome::kUndecided) {
        remember(signature);
        return kSuccess;
    }
    return host().refuse((std::string(call.function) + ": " + text).c_str());
}

}  // namespace virtual_npu
