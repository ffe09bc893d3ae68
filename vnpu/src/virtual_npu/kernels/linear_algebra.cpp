// Products of matrices and vectors, and decompositions.
//
// The type of CUBE_MATH_TYPE chooses between exact and shortened float32 products on hardware; here all are exact.
#include <limits>
#include <stdexcept>

#include "kernel.h"

namespace virtual_npu {
namespace {

// A product may be asked for in a wider type than its operands have (bfloat16 operands, float32 result).
Tensor operand_of_product(const Tensor& tensor, const Output& result) {
    return at::isFloatingType(result.type()) && tensor.is_floating_point() ? tensor.to(result.type()) : tensor;
}

Tensor product_of(const Tensor& self, const Tensor& mat2, const Output& result) {
    require_one_type({self, mat2});
    return at::matmul(operand_of_product(self, result), operand_of_product(mat2, result));
}

// On tensors without data libtorch does not look at what is added to a product.
Tensor as_large_as(const Tensor& bias, const Output& result) {
    bias.expand(result.sizes());
    return bias;
}

// bias * beta + product * alpha, where beta = 0 drops the bias even if it is not a number.
Tensor scaled_sum(const Tensor& bias, const Tensor& product, const Scalar& beta, const Scalar& alpha) {
    const Tensor scaled = alpha.equal(1) ? product : product * alpha;
    return beta.equal(0) ? scaled : at::add(scaled, bias, beta);
}

// libtorch has distances of float32 and float64 only.
Tensor operand_of_distance(const Tensor& tensor) {
    return at::isReducedFloatingType(tensor.scalar_type()) ? tensor.to(at::kFloat) : tensor;
}

double exponent_of_distance(float exponent) {
    return exponent < 0 ? std::numeric_limits<double>::infinity() : exponent;
}

}  // namespace

KERNEL_WITH_WORKSPACE(aclnnMm, (Tensor self, Tensor mat2, Output result, CubeMathType /*cube_math_type*/)) {
    require_one_type({self, mat2});
    result = at::mm(operand_of_product(self, result), operand_of_product(mat2, result));
}

KERNEL_WITH_WORKSPACE(aclnnMatmul, (Tensor self, Tensor mat2, Output result, CubeMathType /*cube_math_type*/)) {
    result = product_of(self, mat2, result);
}

KERNEL_WITH_WORKSPACE(aclnnBatchMatMul, (Tensor self, Tensor mat2, Output result, CubeMathType /*cube_math_type*/)) {
    require(self.dim() >= 3 && self.sizes().slice(0, self.dim() - 2) == mat2.sizes().slice(0, mat2.dim() - 2),
            "the batches have different sizes");
    result = product_of(self, mat2, result);
}

// A function of torch_npu's own: permute both operands, multiply, permute the product, and regroup its batches.
KERNEL_WITH_WORKSPACE(aclnnTransposeBatchMatMul,
                      (Tensor self, Tensor mat2, OptionalTensor bias, OptionalTensor scale, IntList order_of_self,
                       IntList order_of_mat2, IntList order_of_result, CubeMathType /*cube_math_type*/,
                       int64_t batch_split, Output result)) {
    if (scale.has_value()) throw std::invalid_argument("a scale is not part of the virtual NPU");
    Tensor product = product_of(self.permute(order_of_self), mat2.permute(order_of_mat2), result);
    if (bias.has_value()) product = product + *bias;
    product = product.permute(order_of_result);
    if (batch_split > 1) {  // (m, batch, n) to (split, m, batch / split * n)
        product = product.unflatten(1, {batch_split, -1}).permute({1, 0, 2, 3}).flatten(2);
    }
    result = product;
}

KERNEL_WITH_WORKSPACE(aclnnAddmm, (Tensor self, Tensor mat1, Tensor mat2, Scalar beta, Scalar alpha, Output result,
                                   CubeMathType /*cube_math_type*/)) {
    require_one_type({self, mat1, mat2});
    result = at::addmm(operand_of_product(as_large_as(self, result), result), operand_of_product(mat1, result),
                       operand_of_product(mat2, result), beta, alpha);
}

KERNEL_WITH_WORKSPACE(aclnnInplaceAddmm, (Output self, Tensor mat1, Tensor mat2, Scalar beta, Scalar alpha,
                                          CubeMathType /*cube_math_type*/)) {
    self.tensor().addmm_(mat1, mat2, beta, alpha);
}

KERNEL_WITH_WORKSPACE(aclnnBaddbmm, (Tensor self, Tensor batch1, Tensor batch2, Scalar beta, Scalar alpha,
                                     Output result, CubeMathType /*cube_math_type*/)) {
    require_one_type({self, batch1, batch2});
    result = at::baddbmm(operand_of_product(as_large_as(self, result), result), operand_of_product(batch1, result),
                         operand_of_product(batch2, result), beta, alpha);
}

KERNEL_WITH_WORKSPACE(aclnnAddbmm, (Tensor self, Tensor batch1, Tensor batch2, Scalar beta, Scalar alpha, Output result,
                                    CubeMathType /*cube_math_type*/)) {
    result = at::addbmm(self, batch1, batch2, beta, alpha);
}

// Unlike its neighbours, alpha comes first.
KERNEL_WITH_WORKSPACE(aclnnAddmv, (Tensor self, Tensor mat, Tensor vec, Scalar alpha, Scalar beta, Output result,
                                   CubeMathType /*cube_math_type*/)) {
    require_one_type({self, mat, vec});
    result = scaled_sum(as_large_as(self, result), at::mv(mat, vec), beta, alpha);
}

KERNEL_WITH_WORKSPACE(aclnnMv, (Tensor self, Tensor vec, Output result, CubeMathType /*cube_math_type*/)) {
    result = at::mv(self, vec);
}

KERNEL_WITH_WORKSPACE(aclnnDot, (Tensor self, Tensor other, Output result)) { result = at::dot(self, other); }

KERNEL(aclnnAddr, (Tensor self, Tensor vec1, Tensor vec2, Scalar beta, Scalar alpha, Output result)) {
    result = at::addr(self, vec1, vec2, beta, alpha);
}

KERNEL(aclnnInplaceAddr, (Output self, Tensor vec1, Tensor vec2, Scalar beta, Scalar alpha)) {
    self = at::addr(self.tensor(), vec1, vec2, beta, alpha);
}

KERNEL(aclnnTrace, (Tensor self, Output result)) {
    require(self.dim() == 2, "the trace is that of a matrix");
    result = self.diagonal().sum();
}

KERNEL(aclnnLinalgCross, (Tensor self, Tensor other, int64_t dim, Output result)) {
    result = at::linalg_cross(self, other, dim);
}

KERNEL_WITH_WORKSPACE(aclnnInverse, (Tensor self, Output result)) { result = at::linalg_inv(self); }

KERNEL_WITH_WORKSPACE(aclnnLinalgCholesky, (Tensor self, bool upper, Output result)) {
    result = at::linalg_cholesky(self, upper);
}

KERNEL_WITH_WORKSPACE(aclnnLinalgQr, (Tensor self, int64_t mode, Output q, Output r)) {
    constexpr std::string_view kModes[] = {"reduced", "complete", "r"};
    require(mode >= 0 && mode < 3, "this mode of the decomposition is not known here");
    const auto [orthogonal, triangular] = at::linalg_qr(self, kModes[mode]);
    if (mode != 2) q = orthogonal;
    r = triangular;
}

KERNEL_WITH_WORKSPACE(aclnnSlogdet, (Tensor self, Output sign, Output log)) {
    const auto [sign_of_determinant, log_of_determinant] = at::linalg_slogdet(self);
    sign = sign_of_determinant;
    log = log_of_determinant;
}

KERNEL_WITH_WORKSPACE(aclnnSvd,
                      (Tensor self, bool full_matrices, bool vectors, Output values, Output left, Output right)) {
    if (!vectors) {
        values = at::linalg_svdvals(self);
        return;
    }
    const auto [u, s, vh] = at::linalg_svd(self, full_matrices);
    left = u;
    values = s;
    right = vh.mH();  // the caller passes a transposed view of Vh
}

KERNEL_WITH_WORKSPACE(aclnnTriangularSolve, (Tensor self, Tensor coefficients, bool upper, bool transpose,
                                             bool unitriangular, Output solution, Output cloned_coefficients)) {
    const Tensor matrix = transpose ? coefficients.mT() : coefficients;
    solution = at::linalg_solve_triangular(matrix, self, upper != transpose, /*left=*/true, unitriangular);
    cloned_coefficients = coefficients.expand_as(cloned_coefficients.tensor());
}

// Distances. The exponent arrives as a float; a negative one stands for infinity.
KERNEL_WITH_WORKSPACE(aclnnCdist, (Tensor x1, Tensor x2, float exponent, int64_t mode, Output result)) {
    result = at::cdist(operand_of_distance(x1), operand_of_distance(x2), exponent_of_distance(exponent), mode);
}

KERNEL_WITH_WORKSPACE(aclnnCdistBackward,
                      (Tensor gradient, Tensor x1, Tensor x2, Tensor distance, float exponent, Output result)) {
    result = at::_cdist_backward(operand_of_distance(gradient), operand_of_distance(x1), operand_of_distance(x2),
                                 exponent_of_distance(exponent), operand_of_distance(distance));
}

KERNEL_WITH_WORKSPACE(aclnnPdist, (Tensor self, float exponent, Output result)) {
    result = at::pdist(operand_of_distance(self), exponent_of_distance(exponent));
}

}  // namespace virtual_npu
