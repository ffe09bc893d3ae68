// Random numbers and dropout. The caller passes a seed and an offset, which it advances with every call: the same pair
// gives the same numbers. They are not the numbers of the hardware, and not those of a CPU generator with that seed.
#include <ATen/CPUGeneratorImpl.h>

#include <cstring>

#include "kernel.h"

namespace virtual_npu {
namespace {

// The finalizer of MurmurHash3: every bit of the input changes half the bits of the output. Needed because the CPU
// generator looks at the lower 32 bits of its seed alone, while the caller's offsets differ in a few low bits.
uint64_t mix_bits(uint64_t value) {
    value ^= value >> 33;
    value *= 0xff51afd7ed558ccdULL;
    value ^= value >> 33;
    value *= 0xc4ceb9fe1a85ec53ULL;
    return value ^ (value >> 33);
}

at::Generator generator_for(Seed seed, Seed offset) {
    constexpr uint64_t kGoldenRatio = 0x9e3779b97f4a7c15ULL;
    const uint64_t mixed =
        mix_bits(mix_bits(static_cast<uint64_t>(seed) + kGoldenRatio) + static_cast<uint64_t>(offset));
    return at::detail::createCPUGenerator(mixed);
}

// Inside a captured graph seed and offset lie on the device, and the offset within the graph is added.
at::Generator generator_for(const Tensor& seed, const Tensor& offset, int64_t offset_in_graph) {
    return generator_for(Seed{seed.item<int64_t>()}, Seed{offset.item<int64_t>() + offset_in_graph});
}

// mean + deviation * (standard normal numbers), of the output's shape.
Tensor normal_numbers(const Output& result, const Tensor& mean, const Tensor& deviation,
                      const at::Generator& generator) {
    const Tensor target = result.tensor();
    const auto type = c10::isReducedFloatingType(target.scalar_type()) ? at::kFloat : target.scalar_type();
    const Tensor standard = at::empty(target.sizes(), at::TensorOptions().dtype(type)).normal_(0, 1, generator);
    return standard.mul_(deviation).add_(mean);
}

Tensor drawn(const Tensor& weights, int64_t samples, bool replacement, const at::Generator& generator) {
    const bool reduced = c10::isReducedFloatingType(weights.scalar_type());
    return at::multinomial(reduced ? weights.to(at::kFloat) : weights, samples, replacement, generator);
}

int64_t element_count(const IntList& shape) {
    int64_t count = 1;
    for (const int64_t size : shape) count *= size;
    return count;
}

// A dropout mask has one bit for each element, the lowest bit of a byte first; 1 keeps the element.
void fill_mask(Output mask, int64_t count, double drop_probability, const at::Generator& generator) {
    Tensor target = mask.tensor();
    require_data(target);
    const Tensor kept = at::empty({count}, at::kBool).bernoulli_(1 - drop_probability, generator);
    const bool* keep = kept.const_data_ptr<bool>();
    auto* bytes = static_cast<uint8_t*>(target.data_ptr());
    if (target.nbytes() * 8 < static_cast<size_t>(count)) throw std::length_error("the mask is too small");
    std::memset(bytes, 0, target.nbytes());
    for (int64_t index = 0; index < count; ++index)
        bytes[index / 8] |= static_cast<uint8_t>(keep[index]) << (index % 8);
}

Tensor dropped_out(const Tensor& self, const Tensor& mask, double scale) {
    require_floating(self);
    require_data(mask);
    if (mask.nbytes() * 8 < static_cast<size_t>(self.numel())) throw std::length_error("the mask is too small");
    const Tensor kept = at::empty({self.numel()}, at::kBool);
    bool* keep = kept.data_ptr<bool>();
    const auto* bytes = static_cast<const uint8_t*>(mask.const_data_ptr());
    for (int64_t index = 0; index < self.numel(); ++index) keep[index] = (bytes[index / 8] >> (index % 8)) & 1;
    return at::where(kept.view(self.sizes()), at::mul(self, scale), at::zeros({}, self.options()));
}

// The factor that keeps the expected value; nothing is kept at a probability of 1.
double dropout_scale(double drop_probability) { return drop_probability < 1 ? 1 / (1 - drop_probability) : 0; }

}  // namespace

// Normal. Mean and deviation are floats where they are numbers.
KERNEL(aclnnInplaceNormal, (Output self, float mean, float deviation, Seed seed, Seed offset)) {
    self.tensor().normal_(mean, deviation, generator_for(seed, offset));
}
KERNEL(aclnnInplaceNormalTensor,
       (Output self, float mean, float deviation, Tensor seed, Tensor offset, int64_t offset_in_graph)) {
    self.tensor().normal_(mean, deviation, generator_for(seed, offset, offset_in_graph));
}
KERNEL(aclnnNormalFloatFloat, (float mean, float deviation, Seed seed, Seed offset, Output result)) {
    result.tensor().normal_(mean, deviation, generator_for(seed, offset));
}
KERNEL(aclnnNormalFloatTensor, (float mean, Tensor deviation, Seed seed, Seed offset, Output result)) {
    result = normal_numbers(result, at::scalar_tensor(mean), deviation, generator_for(seed, offset));
}
KERNEL(aclnnNormalTensorFloat, (Tensor mean, float deviation, Seed seed, Seed offset, Output result)) {
    result = normal_numbers(result, mean, at::scalar_tensor(deviation), generator_for(seed, offset));
}
KERNEL(aclnnNormalTensorTensor, (Tensor mean, Tensor deviation, Seed seed, Seed offset, Output result)) {
    result = normal_numbers(result, mean, deviation, generator_for(seed, offset));
}

// Uniform, whole numbers, exponential.
KERNEL(aclnnInplaceUniform, (Output self, double from, double to, Seed seed, Seed offset)) {
    self.tensor().uniform_(from, to, generator_for(seed, offset));
}
KERNEL(aclnnInplaceUniformTensor,
       (Output self, double from, double to, Tensor seed, Tensor offset, int64_t offset_in_graph)) {
    self.tensor().uniform_(from, to, generator_for(seed, offset, offset_in_graph));
}
KERNEL(aclnnInplaceRandom, (Output self, int64_t from, int64_t to, Seed seed, Seed offset)) {
    self.tensor().random_(from, to, generator_for(seed, offset));
}
KERNEL(aclnnInplaceRandomTensor,
       (Output self, int64_t from, int64_t to, Tensor seed, Tensor offset, int64_t offset_in_graph)) {
    self.tensor().random_(from, to, generator_for(seed, offset, offset_in_graph));
}
KERNEL(aclnnInplaceRandomWithoutFromTo, (Output self, Seed seed, Seed offset)) {
    self.tensor().random_(generator_for(seed, offset));
}
KERNEL(aclnnInplaceRandomWithoutFromToTensor, (Output self, Tensor seed, Tensor offset, int64_t offset_in_graph)) {
    self.tensor().random_(generator_for(seed, offset, offset_in_graph));
}
KERNEL(aclnnSimThreadExponential, (Output self, int64_t /*count*/, double rate, Seed seed, Seed offset)) {
    self.tensor().exponential_(rate, generator_for(seed, offset));
}
KERNEL(aclnnStatelessExponentialTensor,
       (Output self, Tensor seed, Tensor offset, int64_t offset_in_graph, double rate)) {
    self.tensor().exponential_(rate, generator_for(seed, offset, offset_in_graph));
}

// Choices.
KERNEL(aclnnInplaceBernoulli, (Output self, Scalar probability, Seed seed, Seed offset)) {
    self.tensor().bernoulli_(probability.toDouble(), generator_for(seed, offset));
}
KERNEL(aclnnInplaceBernoulliTensor, (Output self, Tensor probability, Seed seed, Seed offset)) {
    require_floating(probability);
    const Tensor target = self.tensor();
    target.bernoulli_(probability.to(at::kFloat).expand(target.sizes()), generator_for(seed, offset));
}
KERNEL(aclnnRandperm, (int64_t count, Seed seed, Seed offset, Output result)) {
    result = at::randperm(count, generator_for(seed, offset), at::kLong);
}
KERNEL(aclnnMultinomial, (Tensor self, int64_t samples, bool replacement, Seed seed, Seed offset, Output result)) {
    result = drawn(self, samples, replacement, generator_for(seed, offset));
}
KERNEL(aclnnMultinomialTensor, (Tensor self, int64_t samples, bool replacement, Tensor seed, Tensor offset,
                                int64_t offset_in_graph, Output result)) {
    result = drawn(self, samples, replacement, generator_for(seed, offset, offset_in_graph));
}

// Dropout, in two calls (make a mask, apply it) or in one. The probability is that of dropping; the call that applies
// the mask in the backward pass gets it too, where one expects a scale.
KERNEL(aclnnDropoutGenMask, (IntList shape, double probability, Seed seed, Seed offset, Output mask)) {
    fill_mask(mask, element_count(shape), probability, generator_for(seed, offset));
}
KERNEL(aclnnDropoutGenMaskV2,
       (IntList shape, double probability, Seed seed, Seed offset, ElementType /*type*/, Output mask)) {
    fill_mask(mask, element_count(shape), probability, generator_for(seed, offset));
}
KERNEL(aclnnDropoutGenMaskV2Tensor, (IntList shape, double probability, Tensor seed, Tensor offset,
                                     int64_t offset_in_graph, ElementType /*type*/, Output mask)) {
    fill_mask(mask, element_count(shape), probability, generator_for(seed, offset, offset_in_graph));
}
KERNEL(aclnnDropoutDoMask, (Tensor self, Tensor mask, double probability, Output result)) {
    result = dropped_out(self, mask, dropout_scale(probability));
}
KERNEL(aclnnMaskedScale, (Tensor self, Tensor mask, double scale, Output result)) {
    result = at::mul(self, mask).mul(scale);
}
KERNEL(aclnnDropoutV3, (Tensor self, OptionalTensor /*noise_shape*/, double probability, Seed seed, Seed offset,
                        Output result, Output mask)) {
    fill_mask(mask, self.numel(), probability, generator_for(seed, offset));
    result = dropped_out(self, mask.tensor(), dropout_scale(probability));
}
KERNEL(aclnnDropoutV3Grad, (Tensor gradient, Tensor mask, double scale, Output result)) {
    result = dropped_out(gradient, mask, scale);
}

}  // namespace virtual_npu
