// Fused steps of optimizers and what surrounds a step: unscaling of gradients, update of the loss scale.
#include "kernel.h"

namespace virtual_npu {
namespace {

// libtorch's fused steps work on memory as it lies and want one data type for everything. Tensors that differ are
// copied, and copied back by write_back.
Tensor like_parameter(const Tensor& tensor, const Tensor& parameter) {
    return tensor.to(parameter.scalar_type()).contiguous();
}

TensorList like_parameters(const OutputList& list, const TensorList& parameters) {
    TensorList tensors;
    for (size_t index = 0; index < list.size(); ++index) {
        tensors.push_back(like_parameter(list[index].tensor(), parameters.at(index)));
    }
    return tensors;
}

TensorList contiguous(const OutputList& list) {
    TensorList tensors;
    for (size_t index = 0; index < list.size(); ++index) tensors.push_back(list[index].tensor().contiguous());
    return tensors;
}

void write_back(Output target, const Tensor& value) {
    if (target && target.tensor().data_ptr() != value.data_ptr()) target = value;
}

void write_back(OutputList targets, const TensorList& values) {
    for (size_t index = 0; index < targets.size(); ++index) write_back(targets[index], values.at(index));
}

// The caller passes the number of steps before this one, libtorch wants it to include this one.
Tensor steps_so_far(const Tensor& steps_before) { return steps_before.to(at::kFloat).reshape({}).add(1); }

}  // namespace

KERNEL(aclnnForeachNonFiniteCheckAndUnscale, (OutputList gradients, Output found_infinity, Tensor inverse_scale)) {
    const Scalar factor = inverse_scale.item();
    for (size_t index = 0; index < gradients.size(); ++index) {
        Tensor gradient = gradients[index].tensor();
        require_floating(gradient);
        if (!at::isfinite(gradient).all().item<bool>()) found_infinity.tensor().fill_(1);
        gradient.mul_(factor);
    }
}

// The scale and the tracker are inputs and outputs at once: the caller passes each of them twice.
KERNEL(aclnnAmpUpdateScale, (Tensor scale, Tensor growth_tracker, Tensor found_infinity, double growth_factor,
                             double backoff_factor, int64_t growth_interval, Output new_scale, Output new_tracker)) {
    const auto [updated_scale, updated_tracker] =
        at::_amp_update_scale(scale, growth_tracker, found_infinity, growth_factor, backoff_factor, growth_interval);
    new_scale = updated_scale;
    new_tracker = updated_tracker;
}

KERNEL(aclnnFusedSgd,
       (OutputList parameters, OutputList gradients, OutputList momentum_buffers, OptionalTensor gradient_scale,
        Any<float> weight_decay, Any<float> momentum, Any<float> learning_rate, Any<float> dampening, bool nesterov,
        bool maximize, bool is_first_step)) {
    TensorList values = contiguous(parameters);
    TensorList directions = like_parameters(gradients, values);
    TensorList buffers = like_parameters(momentum_buffers, values);
    at::_fused_sgd_(values, directions, buffers, weight_decay, momentum, learning_rate, dampening, nesterov, maximize,
                    is_first_step, gradient_scale);
    write_back(parameters, values);
    write_back(gradients, directions);
    write_back(momentum_buffers, buffers);
}

KERNEL(aclnnFusedAdam, (OutputList parameters, TensorList gradients, OutputList averages, OutputList squared_averages,
                        OutputList largest_averages, TensorList steps_before, OptionalTensor gradient_scale,
                        OptionalTensor found_infinity, Any<double> learning_rate, Any<double> beta1, Any<double> beta2,
                        Any<double> weight_decay, Any<double> epsilon, bool amsgrad, bool maximize)) {
    TensorList values = contiguous(parameters);
    TensorList directions;
    TensorList steps;
    for (size_t index = 0; index < values.size(); ++index) {
        directions.push_back(like_parameter(gradients.at(index), values[index]));
        steps.push_back(steps_so_far(steps_before.at(index)));
    }
    TensorList first = like_parameters(averages, values);
    TensorList second = like_parameters(squared_averages, values);
    TensorList largest = amsgrad ? like_parameters(largest_averages, values) : TensorList();
    at::_fused_adam_(values, directions, first, second, largest, steps, learning_rate, beta1, beta2, weight_decay,
                     epsilon, amsgrad, maximize, gradient_scale, found_infinity);
    write_back(parameters, values);
    write_back(averages, first);
    write_back(squared_averages, second);
    if (amsgrad) write_back(largest_averages, largest);
}

KERNEL(aclnnApplyAdamWV2,
       (Output parameter, Output average, Output squared_average, Output largest_average, Tensor gradient,
        Tensor steps_before, Any<float> learning_rate, Any<float> beta1, Any<float> beta2, Any<float> weight_decay,
        Any<float> epsilon, bool amsgrad, bool maximize)) {
    const Tensor value = parameter.tensor().contiguous();
    const Tensor first = like_parameter(average.tensor(), value);
    const Tensor second = like_parameter(squared_average.tensor(), value);
    TensorList largest;
    if (amsgrad) largest.push_back(like_parameter(largest_average.tensor(), value));
    at::_fused_adamw_({value}, {like_parameter(gradient, value)}, {first}, {second}, largest,
                      {steps_so_far(steps_before)}, learning_rate, beta1, beta2, weight_decay, epsilon, amsgrad,
                      maximize);
    write_back(parameter, value);
    write_back(average, first);
    write_back(squared_average, second);
    if (amsgrad) write_back(largest_average, largest.front());
}

}  // namespace virtual_npu
