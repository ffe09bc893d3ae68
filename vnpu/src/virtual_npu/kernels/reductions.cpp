// Reductions: sums, means, extremes, norms and the like over some or all dimensions, and the running ones (cumsum).
// An empty list of dimensions means all of them.
#include "kernel.h"

namespace virtual_npu {
namespace {

// For the functions of libtorch to which an empty list means no dimension.
at::OptionalIntArrayRef dimensions_or_all(const IntList& dims) {
    return dims.empty() ? at::OptionalIntArrayRef() : at::OptionalIntArrayRef(dims);
}

// Assigns the results of a function that returns two tensors.
void assign_both(Output& first, Output& second, const std::tuple<Tensor, Tensor>& results) {
    first = std::get<0>(results);
    second = std::get<1>(results);
}

}  // namespace

// Sums and products.

KERNEL(aclnnReduceSum, (Tensor self, IntList dims, bool keepdim, ElementType type, Output result)) {
    result = at::sum(self, dims, keepdim, type);
}

KERNEL(aclnnReduceNansum, (Tensor self, IntList dims, bool keepdim, ElementType type, Output result)) {
    result = at::nansum(self, dims, keepdim, type);
}

KERNEL(aclnnProd, (Tensor self, ElementType type, Output result)) { result = at::prod(self, type); }

KERNEL(aclnnProdDim, (Tensor self, int64_t dim, bool keepdim, ElementType type, Output result)) {
    result = at::prod(self, dim, keepdim, type);
}

KERNEL(aclnnLogSumExp, (Tensor self, IntList dims, bool keepdim, Output result)) {
    result = at::logsumexp(self, dims, keepdim);
}

// Moments.

KERNEL(aclnnMean, (Tensor self, IntList dims, bool keepdim, ElementType type, Output result)) {
    result = at::mean(self, dims, keepdim, type);
}

KERNEL(aclnnStd, (Tensor self, IntList dims, int64_t correction, bool keepdim, Output result)) {
    result = at::std(self, dimensions_or_all(dims), Scalar(correction), keepdim);
}

KERNEL(aclnnStdMeanCorrection,
       (Tensor self, IntList dims, int64_t correction, bool keepdim, Output standard_deviation, Output mean)) {
    assign_both(standard_deviation, mean, at::std_mean(self, dimensions_or_all(dims), Scalar(correction), keepdim));
}

KERNEL(aclnnVarCorrection, (Tensor self, IntList dims, int64_t correction, bool keepdim, Output result)) {
    result = at::var(self, dimensions_or_all(dims), Scalar(correction), keepdim);
}

KERNEL(aclnnVarMean, (Tensor self, IntList dims, int64_t correction, bool keepdim, Output variance, Output mean)) {
    assign_both(variance, mean, at::var_mean(self, dimensions_or_all(dims), Scalar(correction), keepdim));
}

// Norms.

KERNEL(aclnnNorm, (Tensor self, OptionalScalar exponent, IntList dims, bool keepdim, Output result)) {
    result = at::norm(self, exponent, dims, keepdim);
}

KERNEL(aclnnLinalgVectorNorm,
       (Tensor self, Scalar exponent, IntList dims, bool keepdim, ElementType type, Output result)) {
    result = at::linalg_vector_norm(self, exponent, dimensions_or_all(dims), keepdim, type);
}

KERNEL(aclnnRenorm, (Tensor self, Scalar exponent, int64_t dim, Scalar maximum, Output result)) {
    result = at::renorm(self, exponent, dim, maximum);
}

KERNEL(aclnnInplaceRenorm, (Output self, Scalar exponent, int64_t dim, Scalar maximum)) {
    self.tensor().renorm_(exponent, dim, maximum);
}

// Extremes.

KERNEL(aclnnMax, (Tensor self, Output result)) { result = at::max(self); }

KERNEL(aclnnMin, (Tensor self, Output result)) { result = at::min(self); }

KERNEL(aclnnMaxDim, (Tensor self, int64_t dim, bool keepdim, Output values, Output indices)) {
    assign_both(values, indices, at::max(self, dim, keepdim));
}

KERNEL(aclnnMinDim, (Tensor self, int64_t dim, bool keepdim, Output values, Output indices)) {
    assign_both(values, indices, at::min(self, dim, keepdim));
}

KERNEL(aclnnAmax, (Tensor self, IntList dims, bool keepdim, Output result)) { result = at::amax(self, dims, keepdim); }

KERNEL(aclnnAmin, (Tensor self, IntList dims, bool keepdim, Output result)) { result = at::amin(self, dims, keepdim); }

KERNEL(aclnnAminmax, (Tensor self, IntList dims, bool keepdim, Output minimum, Output maximum)) {
    minimum = at::amin(self, dims, keepdim);
    maximum = at::amax(self, dims, keepdim);
}

KERNEL(aclnnAminmaxAll, (Tensor self, Output minimum, Output maximum)) {
    assign_both(minimum, maximum, at::aminmax(self));
}

KERNEL(aclnnAminmaxDim, (Tensor self, int64_t dim, bool keepdim, Output minimum, Output maximum)) {
    assign_both(minimum, maximum, at::aminmax(self, dim, keepdim));
}

KERNEL(aclnnArgMax, (Tensor self, int64_t dim, bool keepdim, Output result)) {
    result = at::argmax(self, dim, keepdim);
}

KERNEL(aclnnArgMin, (Tensor self, int64_t dim, bool keepdim, Output result)) {
    result = at::argmin(self, dim, keepdim);
}

// Truth values.

KERNEL(aclnnAll, (Tensor self, IntList dims, bool keepdim, Output result)) {
    result = at::all(self, dimensions_or_all(dims), keepdim);
}

KERNEL(aclnnAny, (Tensor self, IntList dims, bool keepdim, Output result)) {
    result = at::any(self, dimensions_or_all(dims), keepdim);
}

// Order statistics.

KERNEL(aclnnMedian, (Tensor self, Output result)) { result = at::median(self); }

KERNEL(aclnnNanMedian, (Tensor self, Output result)) { result = at::nanmedian(self); }

KERNEL(aclnnMedianDim, (Tensor self, int64_t dim, bool keepdim, Output values, Output indices)) {
    assign_both(values, indices, at::median(self, dim, keepdim));
}

KERNEL(aclnnNanMedianDim, (Tensor self, int64_t dim, bool keepdim, Output values, Output indices)) {
    assign_both(values, indices, at::nanmedian(self, dim, keepdim));
}

KERNEL(aclnnKthvalue, (Tensor self, int64_t k, int64_t dim, bool keepdim, Output values, Output indices)) {
    assign_both(values, indices, at::kthvalue(self, k, dim, keepdim));
}

// Counts.

KERNEL(aclnnHistc, (Tensor self, int64_t bins, Scalar minimum, Scalar maximum, Output result)) {
    require(!self.is_complex(), "there is no histogram of complex numbers");
    const bool in_float = at::isReducedFloatingType(self.scalar_type()) || !self.is_floating_point();
    result = at::histc(in_float ? self.to(at::kFloat) : self, bins, minimum, maximum);
}

KERNEL(aclnnBincount, (Tensor self, OptionalTensor weights, int64_t minimum_length, Output result)) {
    // The caller has looked at the data, and made the result as long as it has to be.
    result = at::bincount(self, weights, std::max(minimum_length, result.tensor().size(0)));
}

// Running reductions.

KERNEL(aclnnCumsum, (Tensor self, int64_t dim, ElementType type, Output result)) {
    result = at::cumsum(self, dim, type);
}

// Unlike in the others, the dimension is an aclScalar.
KERNEL(aclnnCumprod, (Tensor self, Scalar dim, ElementType type, Output result)) {
    result = at::cumprod(self, dim.toLong(), type);
}

KERNEL(aclnnCummax, (Tensor self, int64_t dim, Output values, Output indices)) {
    assign_both(values, indices, at::cummax(self, dim));
}

KERNEL(aclnnCummin, (Tensor self, int64_t dim, Output values, Output indices)) {
    assign_both(values, indices, at::cummin(self, dim));
}

}  // namespace virtual_npu
