#include "operations.h"

#include <cstdlib>
#include <cstring>
#include <memory>

#include "on_stream.h"
#include "operator_abi.h"
#include "runtime_errors.h"
#include "settings.h"
#include "short_floats.h"

namespace atb {
namespace {

using virtual_npu::kBfloat16;
using virtual_npu::kBool;
using virtual_npu::kDouble;
using virtual_npu::kFloat;
using virtual_npu::kFloat16;
using virtual_npu::kInt16;
using virtual_npu::kInt32;
using virtual_npu::kInt64;
using virtual_npu::kInt8;
using virtual_npu::kUint16;
using virtual_npu::kUint32;
using virtual_npu::kUint64;
using virtual_npu::kUint8;

struct Float {
    float value;
};
float widen(Float value) { return value.value; }
void narrow(float value, Float* result) { result->value = value; }
using virtual_npu::narrow;
using virtual_npu::widen;

int64_t bytes_of_type(int32_t type) {
    switch (type) {
        case kFloat:
        case kInt32:
        case kUint32:
            return 4;
        case kFloat16:
        case kBfloat16:
        case kInt16:
        case kUint16:
            return 2;
        case kInt8:
        case kUint8:
        case kBool:
            return 1;
        case kInt64:
        case kUint64:
        case kDouble:
            return 8;
        default:
            return 0;
    }
}

int64_t elements_of(const TensorDesc& desc) {
    int64_t elements = 1;
    for (uint64_t number = 0; number < desc.shape.count; ++number) elements *= desc.shape.sizes[number];
    return elements;
}

Status refuse(const char* operation, const char* why) {
    virtual_npu::fail(virtual_npu::kAclInvalidParameter, "EZ9999: the ATB operation %s: %s", operation, why);
    return kErrorInvalidParameter;
}

// What all have in common: the outputs are some of the inputs, and no workspace is needed.
class OnHost : public Operation {
public:
    Status Setup(const VariantPack& pack, uint64_t& workspace_bytes, Context*) override {
        workspace_bytes = 0;
        return check(pack);
    }
    Status Execute(const VariantPack& pack, uint8_t*, uint64_t, Context* context) override {
        const Status status = check(pack);
        if (status != kSuccess || virtual_npu::settings().compute == virtual_npu::Compute::kNone) return status;
        return virtual_npu::on_stream(context == nullptr ? nullptr : context->GetExecuteStream(),
                                      [self = copy(), kept = pack] { return static_cast<int>(self->compute(kept)); });
    }

protected:
    virtual Status check(const VariantPack& pack) const = 0;
    virtual Status compute(const VariantPack& pack) const = 0;
    // The operation may be destroyed before its work is done.
    virtual std::shared_ptr<const OnHost> copy() const = 0;
};

class Rope final : public OnHost {
public:
    explicit Rope(const infer::RopeParam& param) : coefficient_(param.coefficient) {}

    std::string GetName() const override { return "RopeOperation"; }
    uint32_t GetInputNum() const override { return 5; }
    uint32_t GetOutputNum() const override { return 2; }
    Status InferShape(const SVector<TensorDesc>& inputs, SVector<TensorDesc>& outputs) const override {
        outputs.resize(2);
        outputs[0] = inputs[0];
        outputs[1] = inputs[1];
        return kSuccess;
    }

private:
    std::shared_ptr<const OnHost> copy() const override { return std::make_shared<Rope>(*this); }

    Status check(const VariantPack& pack) const override {
        if (pack.inputs.size() != 5 || pack.outputs.size() != 2) return refuse("Rope", "five inputs, two outputs");
        const TensorDesc& cosine = pack.inputs[2].desc;
        if (cosine.shape.count == 0) return refuse("Rope", "cosines without a shape");
        const int64_t head = cosine.shape.sizes[cosine.shape.count - 1];
        if (coefficient_ < 2 || coefficient_ % 2 != 0 || head <= 0 || (2 * head) % coefficient_ != 0) {
            return refuse("Rope", "a head cannot be split so");
        }
        const int64_t tokens = elements_of(cosine) / head;
        for (const size_t number : {0, 1}) {
            const TensorDesc& desc = pack.inputs[number].desc;
            if (tokens > 0 && (elements_of(desc) % tokens != 0 || elements_of(desc) / tokens % head != 0)) {
                return refuse("Rope", "tokens are not whole heads");
            }
            if (desc.type != kFloat && desc.type != kFloat16 && desc.type != kBfloat16) {
                return refuse("Rope", "a type that is not supported");
            }
        }
        if (pack.inputs[3].desc.type != cosine.type || elements_of(pack.inputs[3].desc) != elements_of(cosine) ||
            (cosine.type != pack.inputs[0].desc.type && cosine.type != kFloat)) {
            return refuse("Rope", "cosines and sines do not fit");
        }
        return kSuccess;
    }

    Status compute(const VariantPack& pack) const override {
        for (const size_t number : {0, 1}) {
            const Tensor& from = pack.inputs[number];
            const Tensor& to = pack.outputs[number];
            switch (from.desc.type) {
                case kFloat:
                    turn<Float>(from, to, pack);
                    break;
                case kFloat16:
                    turn<virtual_npu::Float16>(from, to, pack);
                    break;
                default:
                    turn<virtual_npu::Bfloat16>(from, to, pack);
            }
        }
        return kSuccess;
    }

    template <typename Element>
    void turn(const Tensor& from, const Tensor& to, const VariantPack& pack) const {
        if (pack.inputs[2].desc.type == kFloat) {
            turn<Element, Float>(from, to, pack.inputs[2], pack.inputs[3]);
        } else {
            turn<Element, Element>(from, to, pack.inputs[2], pack.inputs[3]);
        }
    }

    template <typename Element, typename Angle>
    void turn(const Tensor& from, const Tensor& to, const Tensor& cosines, const Tensor& sines) const {
        const int64_t head = cosines.desc.shape.sizes[cosines.desc.shape.count - 1];
        const int64_t tokens = elements_of(cosines.desc) / head;
        const int64_t heads = tokens == 0 ? 0 : elements_of(from.desc) / tokens / head;
        const int64_t piece = 2 * head / coefficient_;
        std::vector<float> turned(static_cast<size_t>(head));
        for (int64_t token = 0; token < tokens; ++token) {
            const auto* const cosine = static_cast<const Angle*>(cosines.device_data) + token * head;
            const auto* const sine = static_cast<const Angle*>(sines.device_data) + token * head;
            for (int64_t number = 0; number < heads; ++number) {
                const int64_t begin = (token * heads + number) * head;
                const auto* const source = static_cast<const Element*>(from.device_data) + begin;
                auto* const target = static_cast<Element*>(to.device_data) + begin;
                for (int64_t index = 0; index < head; ++index) {
                    const bool is_first = index % piece < piece / 2;
                    const float other = widen(source[is_first ? index + piece / 2 : index - piece / 2]);
                    turned[static_cast<size_t>(index)] =
                        widen(source[index]) * widen(cosine[index]) + (is_first ? -other : other) * widen(sine[index]);
                }
                for (int64_t index = 0; index < head; ++index) {
                    narrow(turned[static_cast<size_t>(index)], &target[index]);
                }
            }
        }
    }

    int32_t coefficient_;
};

class ReshapeAndCache final : public OnHost {
public:
    std::string GetName() const override { return "ReshapeAndCacheOperation"; }
    uint32_t GetInputNum() const override { return 5; }
    uint32_t GetOutputNum() const override { return 2; }
    Status InferShape(const SVector<TensorDesc>& inputs, SVector<TensorDesc>& outputs) const override {
        outputs.resize(2);
        outputs[0] = inputs[2];
        outputs[1] = inputs[3];
        return kSuccess;
    }

private:
    std::shared_ptr<const OnHost> copy() const override { return std::make_shared<ReshapeAndCache>(*this); }

    Status check(const VariantPack& pack) const override {
        constexpr char kName[] = "ReshapeAndCache";
        if (pack.inputs.size() != 5 || pack.outputs.size() != 2) return refuse(kName, "five inputs, two outputs");
        const TensorDesc& slots = pack.inputs[4].desc;
        if (slots.type != kInt32 && slots.type != kInt64) return refuse(kName, "slots are not whole numbers");
        for (const size_t number : {0, 1}) {
            const TensorDesc& written = pack.inputs[number].desc;
            const TensorDesc& cache = pack.inputs[number + 2].desc;
            if (written.shape.count == 0 || cache.shape.count < 2 || cache.format != written.format) {
                return refuse(kName, "a cache is blocks of slots, in the format of what is written");
            }
            if (written.type != cache.type || bytes_of_type(cache.type) == 0) return refuse(kName, "types differ");
            if (written.shape.sizes[0] < elements_of(slots)) return refuse(kName, "more slots than tokens");
            const int64_t places = cache.shape.sizes[0] * cache.shape.sizes[1];
            if (places > 0 && written.shape.sizes[0] > 0 &&
                elements_of(cache) / places != elements_of(written) / written.shape.sizes[0]) {
                return refuse(kName, "a slot of the cache has another size than a token");
            }
        }
        return kSuccess;
    }

    Status compute(const VariantPack& pack) const override {
        const Tensor& slots = pack.inputs[4];
        for (const size_t number : {0, 1}) {
            const Tensor& written = pack.inputs[number];
            const Tensor& cache = pack.outputs[number];
            const int64_t places = cache.desc.shape.sizes[0] * cache.desc.shape.sizes[1];
            const int64_t tokens = written.desc.shape.sizes[0];
            const int64_t bytes =
                tokens == 0 ? 0 : elements_of(written.desc) / tokens * bytes_of_type(written.desc.type);
            for (int64_t token = 0; token < elements_of(slots.desc); ++token) {
                const int64_t slot = slots.desc.type == kInt32 ? static_cast<const int32_t*>(slots.device_data)[token]
                                                               : static_cast<const int64_t*>(slots.device_data)[token];
                if (slot < 0) continue;  // padding
                if (slot >= places) return refuse("ReshapeAndCache", "a slot is not in the cache");
                std::memcpy(static_cast<char*>(cache.device_data) + slot * bytes,
                            static_cast<const char*>(written.device_data) + token * bytes, static_cast<size_t>(bytes));
            }
        }
        return kSuccess;
    }
};

class AccumulatingLinear final : public OnHost {
public:
    explicit AccumulatingLinear(const infer::LinearParam& param) : param_(param) {}

    std::string GetName() const override { return "LinearOperation"; }
    uint32_t GetInputNum() const override { return 3; }
    uint32_t GetOutputNum() const override { return 1; }
    Status InferShape(const SVector<TensorDesc>& inputs, SVector<TensorDesc>& outputs) const override {
        outputs.resize(1);
        outputs[0] = inputs[2];
        return kSuccess;
    }

private:
    struct Sizes {
        int64_t rows, inner, columns;
    };

    Sizes sizes(const VariantPack& pack) const {
        const auto& first = pack.inputs[0].desc.shape.sizes;
        const auto& second = pack.inputs[1].desc.shape.sizes;
        return {first[param_.transposes_first ? 1 : 0], first[param_.transposes_first ? 0 : 1],
                second[param_.transposes_second ? 0 : 1]};
    }

    std::shared_ptr<const OnHost> copy() const override { return std::make_shared<AccumulatingLinear>(*this); }

    Status check(const VariantPack& pack) const override {
        if (pack.inputs.size() != 3 || pack.outputs.size() != 1) return refuse("Linear", "three inputs, one output");
        for (const size_t number : {0, 1, 2}) {
            if (pack.inputs[number].desc.shape.count != 2) return refuse("Linear", "not all inputs are matrices");
        }
        const int32_t type = pack.inputs[0].desc.type;
        if ((type != kFloat16 && type != kBfloat16) || pack.inputs[1].desc.type != type ||
            pack.inputs[2].desc.type != kFloat) {
            return refuse("Linear", "types that are not supported");
        }
        const auto [rows, inner, columns] = sizes(pack);
        const auto& sum = pack.inputs[2].desc.shape.sizes;
        if (pack.inputs[1].desc.shape.sizes[param_.transposes_second ? 1 : 0] != inner || sum[0] != rows ||
            sum[1] != columns) {
            return refuse("Linear", "shapes do not fit");
        }
        return kSuccess;
    }

    Status compute(const VariantPack& pack) const override {
        if (pack.inputs[0].desc.type == kFloat16) {
            multiply<virtual_npu::Float16>(pack);
        } else {
            multiply<virtual_npu::Bfloat16>(pack);
        }
        return kSuccess;
    }

    template <typename Element>
    void multiply(const VariantPack& pack) const {
        const auto [rows, inner, columns] = sizes(pack);
        const auto* const first = static_cast<const Element*>(pack.inputs[0].device_data);
        const auto* const second = static_cast<const Element*>(pack.inputs[1].device_data);
        auto* const sum = static_cast<float*>(pack.outputs[0].device_data);
        for (int64_t row = 0; row < rows; ++row) {
            for (int64_t column = 0; column < columns; ++column) {
                float product = 0;
                for (int64_t index = 0; index < inner; ++index) {
                    const auto& left = first[param_.transposes_first ? index * rows + row : row * inner + index];
                    const auto& right =
                        second[param_.transposes_second ? column * inner + index : index * columns + column];
                    product += widen(left) * widen(right);
                }
                sum[row * columns + column] += product;
            }
        }
    }

    infer::LinearParam param_;
};

}  // namespace

uint64_t bytes_of(const TensorDesc& desc) {
    return static_cast<uint64_t>(elements_of(desc) * bytes_of_type(desc.type));
}

Operation* make_rope(const infer::RopeParam& param) { return new Rope(param); }

Operation* make_reshape_and_cache() { return new ReshapeAndCache; }

Operation* make_accumulating_linear(const infer::LinearParam& param) { return new AccumulatingLinear(param); }

}  // namespace atb
