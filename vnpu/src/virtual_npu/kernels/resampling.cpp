// Resampling of images and sequences: interpolation in every mode, sampling at the points of a grid, channel shuffle.
#include "kernel.h"

namespace virtual_npu {
namespace {

// torch_npu passes 0 or -1 for a scale that was not given.
std::optional<double> scale_or_none(double scale) { return scale > 0 ? std::optional<double>(scale) : std::nullopt; }

}  // namespace

// --- interpolation, where only the output's size (and the scales, if they were given) matter
//
// NUMBER is the type of the scales: most functions take double, the second versions of nearest take float.

#define RESAMPLE_1D(FUNCTION, OPERATOR, NUMBER)                                         \
    KERNEL(FUNCTION, (Tensor self, IntList output_size, NUMBER scale, Output result)) { \
        result = at::OPERATOR(self, output_size, scale_or_none(scale));                 \
    }
#define RESAMPLE_2D(FUNCTION, OPERATOR, NUMBER)                                                                    \
    KERNEL(FUNCTION, (Tensor self, IntList output_size, NUMBER scale_height, NUMBER scale_width, Output result)) { \
        result = at::OPERATOR(self, output_size, scale_or_none(scale_height), scale_or_none(scale_width));         \
    }
#define RESAMPLE_3D(FUNCTION, OPERATOR)                                                                              \
    KERNEL(FUNCTION, (Tensor self, IntList output_size, double scale_depth, double scale_height, double scale_width, \
                      Output result)) {                                                                              \
        result = at::OPERATOR(self, output_size, scale_or_none(scale_depth), scale_or_none(scale_height),            \
                              scale_or_none(scale_width));                                                           \
    }
#define RESAMPLE_1D_BACKWARD(FUNCTION, OPERATOR)                                                                \
    KERNEL(FUNCTION, (Tensor gradient, IntList output_size, IntList input_size, double scale, Output result)) { \
        result = at::OPERATOR(gradient, output_size, input_size, scale_or_none(scale));                         \
    }
#define RESAMPLE_2D_BACKWARD(FUNCTION, OPERATOR)                                                                      \
    KERNEL(FUNCTION, (Tensor gradient, IntList output_size, IntList input_size, double scale_height,                  \
                      double scale_width, Output result)) {                                                           \
        result =                                                                                                      \
            at::OPERATOR(gradient, output_size, input_size, scale_or_none(scale_height), scale_or_none(scale_width)); \
    }
#define RESAMPLE_3D_BACKWARD(FUNCTION, OPERATOR)                                                    \
    KERNEL(FUNCTION, (Tensor gradient, IntList output_size, IntList input_size, double scale_depth, \
                      double scale_height, double scale_width, Output result)) {                    \
        result = at::OPERATOR(gradient, output_size, input_size, scale_or_none(scale_depth),        \
                              scale_or_none(scale_height), scale_or_none(scale_width));             \
    }

KERNEL(aclnnUpsampleNearest1d, (Tensor self, IntList output_size, Output result)) {
    result = at::upsample_nearest1d(self, output_size);
}
KERNEL(aclnnUpsampleNearest2d, (Tensor self, IntList output_size, Output result)) {
    result = at::upsample_nearest2d(self, output_size);
}
RESAMPLE_1D(aclnnUpsampleNearest1dV2, upsample_nearest1d, float)
RESAMPLE_1D(aclnnUpsampleNearestExact1d, _upsample_nearest_exact1d, double)
RESAMPLE_2D(aclnnUpsampleNearest2dV2, upsample_nearest2d, float)
RESAMPLE_2D(aclnnUpsampleNearestExact2d, _upsample_nearest_exact2d, double)
RESAMPLE_3D(aclnnUpsampleNearest3d, upsample_nearest3d)
RESAMPLE_3D(aclnnUpsampleNearestExact3d, _upsample_nearest_exact3d)
RESAMPLE_1D_BACKWARD(aclnnUpsampleNearest1dBackward, upsample_nearest1d_backward)
RESAMPLE_1D_BACKWARD(aclnnUpsampleNearestExact1dBackward, _upsample_nearest_exact1d_backward)
RESAMPLE_2D_BACKWARD(aclnnUpsampleNearest2dBackward, upsample_nearest2d_backward)
RESAMPLE_2D_BACKWARD(aclnnUpsampleNearestExact2dBackward, _upsample_nearest_exact2d_backward)
RESAMPLE_3D_BACKWARD(aclnnUpsampleNearest3dBackward, upsample_nearest3d_backward)
RESAMPLE_3D_BACKWARD(aclnnUpsampleNearestExact3dBackward, _upsample_nearest_exact3d_backward)

#undef RESAMPLE_1D
#undef RESAMPLE_2D
#undef RESAMPLE_3D
#undef RESAMPLE_1D_BACKWARD
#undef RESAMPLE_2D_BACKWARD
#undef RESAMPLE_3D_BACKWARD

// --- interpolation between points, which may align the corners
//
// WIDENED is `widened` for smoothing interpolation, which the CPU has no half precision for.

#define INTERPOLATE_2D(FUNCTION, OPERATOR, WIDENED)                                                                  \
    KERNEL(FUNCTION, (Tensor self, IntList output_size, bool align_corners, double scale_height, double scale_width, \
                      Output result)) {                                                                              \
        result = at::OPERATOR(WIDENED(self), output_size, align_corners, scale_or_none(scale_height),                \
                              scale_or_none(scale_width));                                                           \
    }
#define INTERPOLATE_2D_BACKWARD(FUNCTION, OPERATOR, WIDENED)                                                          \
    KERNEL(FUNCTION, (Tensor gradient, IntList output_size, IntList input_size, bool align_corners,                   \
                      double scale_height, double scale_width, Output result)) {                                      \
        result = at::OPERATOR(WIDENED(gradient), output_size, input_size, align_corners, scale_or_none(scale_height), \
                              scale_or_none(scale_width));                                                            \
    }

INTERPOLATE_2D(aclnnUpsampleBilinear2d, upsample_bilinear2d, Tensor)
INTERPOLATE_2D(aclnnUpsampleBilinear2dAA, _upsample_bilinear2d_aa, widened)
INTERPOLATE_2D(aclnnUpsampleBicubic2d, upsample_bicubic2d, Tensor)
INTERPOLATE_2D(aclnnUpsampleBicubic2dAA, _upsample_bicubic2d_aa, widened)
INTERPOLATE_2D_BACKWARD(aclnnUpsampleBilinear2dBackward, upsample_bilinear2d_backward, Tensor)
INTERPOLATE_2D_BACKWARD(aclnnUpsampleBilinear2dBackwardV2, upsample_bilinear2d_backward, Tensor)
INTERPOLATE_2D_BACKWARD(aclnnUpsampleBilinear2dAABackward, _upsample_bilinear2d_aa_backward, widened)
INTERPOLATE_2D_BACKWARD(aclnnUpsampleBicubic2dBackward, upsample_bicubic2d_backward, Tensor)
INTERPOLATE_2D_BACKWARD(aclnnUpsampleBicubic2dAAGrad, _upsample_bicubic2d_aa_backward, widened)

#undef INTERPOLATE_2D
#undef INTERPOLATE_2D_BACKWARD

KERNEL(aclnnUpsampleLinear1d, (Tensor self, IntList output_size, bool align_corners, double scale, Output result)) {
    result = at::upsample_linear1d(self, output_size, align_corners, scale_or_none(scale));
}

KERNEL(aclnnUpsampleLinear1dBackward,
       (Tensor gradient, IntList output_size, IntList input_size, bool align_corners, double scale, Output result)) {
    result = at::upsample_linear1d_backward(gradient, output_size, input_size, align_corners, scale_or_none(scale));
}

KERNEL(aclnnUpsampleTrilinear3d, (Tensor self, IntList output_size, bool align_corners, double scale_depth,
                                  double scale_height, double scale_width, Output result)) {
    result = at::upsample_trilinear3d(self, output_size, align_corners, scale_or_none(scale_depth),
                                      scale_or_none(scale_height), scale_or_none(scale_width));
}

KERNEL(aclnnUpsampleTrilinear3dBackward, (Tensor gradient, IntList output_size, IntList input_size, bool align_corners,
                                          double scale_depth, double scale_height, double scale_width, Output result)) {
    result =
        at::upsample_trilinear3d_backward(gradient, output_size, input_size, align_corners, scale_or_none(scale_depth),
                                          scale_or_none(scale_height), scale_or_none(scale_width));
}

// --- grids

#define GRID_SAMPLER(FUNCTION, OPERATOR)                                                                               \
    KERNEL(FUNCTION, (Tensor self, Tensor grid, int64_t interpolation_mode, int64_t padding_mode, bool align_corners,  \
                      Output result)) {                                                                                \
        result = at::OPERATOR(widened(self), widened(grid), interpolation_mode, padding_mode, align_corners);          \
    }                                                                                                                  \
    KERNEL(FUNCTION##Backward,                                                                                         \
           (Tensor gradient, Tensor self, Tensor grid, int64_t interpolation_mode, int64_t padding_mode,               \
            bool align_corners, BoolList output_mask, Output self_gradient, Output grid_gradient)) {                   \
        const auto [of_self, of_grid] =                                                                                \
            at::OPERATOR##_backward(widened(gradient), widened(self), widened(grid), interpolation_mode, padding_mode, \
                                    align_corners, {output_mask.at(0), true});                                         \
        if (output_mask.at(0)) self_gradient = of_self;                                                                \
        grid_gradient = of_grid;                                                                                       \
    }

GRID_SAMPLER(aclnnGridSampler2D, grid_sampler_2d)
GRID_SAMPLER(aclnnGridSampler3D, grid_sampler_3d)

#undef GRID_SAMPLER

KERNEL(aclnnAffineGrid, (Tensor theta, IntList size, bool align_corners, Output result)) {
    result = at::affine_grid_generator(theta, size, align_corners);
}

KERNEL(aclnnChannelShuffle, (Tensor self, int64_t groups, Output result)) {
    result = at::channel_shuffle(self, groups);
}

}  // namespace virtual_npu
