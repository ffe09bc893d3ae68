// Recurrent networks: LSTM and GRU over whole sequences, and the fused LSTM cell. nn.RNN needs nothing here.
//
// The forward functions store the activations of every step when they train, and the backward functions start from
// these. Dropout between layers is ignored, as the CANN documentation says of the device.
#include "recurrent.h"

#include "kernel.h"

namespace virtual_npu {
namespace {

// How many sequences still run at each step. While a call is rehearsed nobody knows; these fit to the number of all
// elements, and to that of the sequences.
IntList fitting_rows(int64_t steps, int64_t elements, int64_t batch) {
    IntList rows;
    for (int64_t left = steps; left > 0; --left) {
        rows.push_back(elements == batch * left ? batch : std::min(batch, elements - (left - 1)));
        elements -= rows.back();
    }
    require(elements == 0 && (rows.empty() || rows.back() > 0), "the elements are not those of as many steps");
    return rows;
}

// `batch` is the number of sequences, for a packed batch.
Steps steps_of(const Tensor& sequences, const OptionalTensor& batch_sizes, bool batch_first, int64_t batch) {
    require_floating(sequences);
    Steps steps;
    if (!batch_sizes.has_value()) {
        require(sequences.dim() == 3, "a batch of sequences has three dimensions");
        steps.batch = sequences.size(batch_first ? 0 : 1);
        steps.rows.assign(static_cast<size_t>(sequences.size(batch_first ? 1 : 0)), steps.batch);
    } else if (is_rehearsing()) {
        steps.batch = batch;
        steps.rows = fitting_rows(batch_sizes->numel(), sequences.size(0), batch);
    } else {
        const Tensor sizes = batch_sizes->to(at::kLong).contiguous();
        steps.rows.assign(sizes.data_ptr<int64_t>(), sizes.data_ptr<int64_t>() + sizes.numel());
        steps.batch = steps.rows.empty() ? 0 : steps.rows.front();
    }
    require(steps.count() > 0, "sequences have at least one step");
    // torch_npu leaves the padding in packed sequences; then every step has room for the whole batch.
    const bool padded = !batch_sizes.has_value() || sequences.size(0) == steps.batch * steps.count();
    int64_t next = 0;
    for (const int64_t rows : steps.rows) {
        steps.begin.push_back(next);
        next += padded ? steps.batch : rows;
    }
    return steps;
}

Tensor as_matrix(const Tensor& sequences, bool batch_first) {
    const Tensor values = sequences.to(at::kFloat);
    if (values.dim() == 2) return values;
    return (batch_first ? values.transpose(0, 1) : values).flatten(0, 1);
}

// The matrix in the order of the caller's output, which the assignment then only reshapes.
Tensor from_matrix(const Tensor& matrix, const Steps& steps, int64_t dimensions, bool batch_first) {
    if (dimensions == 2) return matrix;
    const Tensor sequences = matrix.unflatten(0, {steps.count(), steps.batch});
    return batch_first ? sequences.transpose(0, 1) : sequences;
}

size_t parameters_of_cell(bool has_biases) { return has_biases ? 4 : 2; }

CellParameters cell_parameters(const TensorList& all, size_t index, bool has_biases) {
    const size_t first = index * parameters_of_cell(has_biases);
    for (size_t each = 0; each < parameters_of_cell(has_biases); ++each) require_floating(all.at(first + each));
    const Tensor weight = all.at(first).to(at::kFloat);
    const Tensor none = at::zeros({weight.size(0)});
    return {weight, all.at(first + 1).to(at::kFloat), has_biases ? all.at(first + 2).to(at::kFloat) : none,
            has_biases ? all.at(first + 3).to(at::kFloat) : none};
}

void assign_parameter_gradients(OutputList all, size_t index, bool has_biases, const CellGradients& gradients) {
    const size_t first = index * parameters_of_cell(has_biases);
    all[first] = gradients.input_weight;
    all[first + 1] = gradients.hidden_weight;
    if (!has_biases) return;
    all[first + 2] = gradients.input_bias;
    all[first + 3] = gradients.hidden_bias;
}

OptionalTensor element_or_none(const TensorList& tensors, size_t index) {
    return index < tensors.size() ? OptionalTensor(tensors[index]) : OptionalTensor();
}

Tensor state_or_zero(const OptionalTensor& states, size_t index, int64_t batch, int64_t hidden) {
    if (!states.has_value()) return at::zeros({batch, hidden});
    return states->select(0, static_cast<int64_t>(index)).to(at::kFloat);
}

// The input of a layer: the input of the network, or the outputs of the layer below it in all directions.
Tensor layer_input(const Tensor& input, const std::vector<Tensor>& outputs, size_t layer, size_t directions) {
    if (layer == 0) return input;
    const auto begin = outputs.begin() + static_cast<ptrdiff_t>((layer - 1) * directions);
    return at::cat(std::vector<Tensor>(begin, begin + static_cast<ptrdiff_t>(directions)), -1);
}

std::vector<Tensor> as_matrices(const TensorList& sequences) {
    std::vector<Tensor> matrices;
    for (const Tensor& sequence : sequences) matrices.push_back(as_matrix(sequence, false));
    return matrices;
}

Tensor output_gradient(const OptionalTensor& gradient, const Tensor& input, int64_t width, bool batch_first) {
    return gradient.has_value() ? as_matrix(*gradient, batch_first) : at::zeros({input.size(0), width});
}

// The columns that one direction wrote.
Tensor columns_of(const Tensor& gradient, size_t direction, int64_t width) {
    return gradient.narrow(1, static_cast<int64_t>(direction) * width, width);
}

}  // namespace

// --- LSTM

KERNEL_WITH_WORKSPACE(aclnnLSTM,
                      (Tensor input, TensorList parameters, TensorList initial, OptionalTensor batch_sizes,
                       bool has_biases, int64_t layers, double /*dropout*/, bool train, bool bidirectional,
                       bool batch_first, Output result, Output last_hidden, Output last_cell, OutputList input_gates,
                       OutputList candidates, OutputList forget_gates, OutputList output_gates,
                       OutputList hidden_states, OutputList cell_states, OutputList cell_tanhs)) {
    const Steps steps = steps_of(input, batch_sizes, batch_first, last_hidden.sizes().at(1));
    const Tensor first_input = as_matrix(input, batch_first);
    const size_t directions = bidirectional ? 2 : 1;
    std::vector<Tensor> outputs, hidden_ends, cell_ends;
    for (size_t index = 0; index < static_cast<size_t>(layers) * directions; ++index) {
        const CellParameters cell = cell_parameters(parameters, index, has_biases);
        const LstmPass pass = lstm_pass(steps, layer_input(first_input, outputs, index / directions, directions), cell,
                                        state_or_zero(element_or_none(initial, 0), index, steps.batch, cell.width()),
                                        state_or_zero(element_or_none(initial, 1), index, steps.batch, cell.width()),
                                        index % directions == 1);
        outputs.push_back(pass.activations.hidden);
        hidden_ends.push_back(pass.last_hidden);
        cell_ends.push_back(pass.last_cell);
        if (!train) continue;
        input_gates[index].assign_reshaped(pass.activations.input);
        forget_gates[index].assign_reshaped(pass.activations.forget);
        candidates[index].assign_reshaped(pass.activations.candidate);
        output_gates[index].assign_reshaped(pass.activations.output);
        hidden_states[index].assign_reshaped(pass.activations.hidden);
        cell_states[index].assign_reshaped(pass.activations.cell);
        cell_tanhs[index].assign_reshaped(pass.activations.cell_tanh);
    }
    result.assign_reshaped(from_matrix(layer_input(first_input, outputs, static_cast<size_t>(layers), directions),
                                       steps, input.dim(), batch_first));
    last_hidden = at::stack(hidden_ends);
    last_cell = at::stack(cell_ends);
}

KERNEL_WITH_WORKSPACE(aclnnLstmBackward,
                      (Tensor input, TensorList initial, TensorList parameters, OptionalTensor gradient,
                       OptionalTensor hidden_gradient, OptionalTensor cell_gradient, TensorList input_gates,
                       TensorList candidates, TensorList forget_gates, TensorList output_gates,
                       TensorList hidden_states, TensorList cell_states, TensorList cell_tanhs,
                       OptionalTensor batch_sizes, bool has_biases, int64_t layers, double /*dropout*/, bool /*train*/,
                       bool bidirectional, bool batch_first, BoolList /*output_mask*/, Output of_input,
                       Output of_hidden_start, Output of_cell_start, OutputList of_parameters)) {
    const Steps steps = steps_of(input, batch_sizes, batch_first, of_hidden_start.sizes().at(1));
    const Tensor first_input = as_matrix(input, batch_first);
    const size_t directions = bidirectional ? 2 : 1;
    const std::vector<Tensor> hiddens = as_matrices(hidden_states);
    const int64_t width = hiddens.at(0).size(1);
    std::vector<Tensor> hidden_starts(hiddens.size()), cell_starts(hiddens.size());
    Tensor above = output_gradient(gradient, first_input, width * static_cast<int64_t>(directions), batch_first);
    for (size_t layer = static_cast<size_t>(layers); layer-- > 0;) {
        const Tensor read = layer_input(first_input, hiddens, layer, directions);
        Tensor below = at::zeros_like(read);
        for (size_t direction = 0; direction < directions; ++direction) {
            const size_t index = layer * directions + direction;
            const auto kept = [index](const TensorList& list) { return as_matrix(list.at(index), false); };
            const LstmActivations activations{kept(input_gates),  kept(forget_gates), kept(candidates),
                                              kept(output_gates), hiddens.at(index),  kept(cell_states),
                                              kept(cell_tanhs)};
            const CellGradients gradients = lstm_pass_backward(
                steps, read, cell_parameters(parameters, index, has_biases), activations,
                state_or_zero(element_or_none(initial, 0), index, steps.batch, width),
                state_or_zero(element_or_none(initial, 1), index, steps.batch, width),
                columns_of(above, direction, width), state_or_zero(hidden_gradient, index, steps.batch, width),
                state_or_zero(cell_gradient, index, steps.batch, width), direction == 1);
            assign_parameter_gradients(of_parameters, index, has_biases, gradients);
            below.add_(gradients.input);
            hidden_starts[index] = gradients.hidden_start;
            cell_starts[index] = gradients.cell_start;
        }
        above = below;
    }
    of_input.assign_reshaped(from_matrix(above, steps, input.dim(), batch_first));
    of_hidden_start = at::stack(hidden_starts);
    of_cell_start = at::stack(cell_starts);
}

// --- GRU

KERNEL_WITH_WORKSPACE(aclnnGRU, (Tensor input, TensorList parameters, OptionalTensor initial,
                                 OptionalTensor batch_sizes, bool has_biases, int64_t layers, double /*dropout*/,
                                 bool train, bool bidirectional, bool batch_first, Output result, Output last_hidden,
                                 OutputList reset_gates, OutputList update_gates, OutputList candidates,
                                 OutputList hidden_parts, OutputList hidden_states)) {
    const Steps steps = steps_of(input, batch_sizes, batch_first, last_hidden.sizes().at(1));
    const Tensor first_input = as_matrix(input, batch_first);
    const size_t directions = bidirectional ? 2 : 1;
    std::vector<Tensor> outputs, hidden_ends;
    for (size_t index = 0; index < static_cast<size_t>(layers) * directions; ++index) {
        const CellParameters cell = cell_parameters(parameters, index, has_biases);
        const GruPass pass =
            gru_pass(steps, layer_input(first_input, outputs, index / directions, directions), cell,
                     state_or_zero(initial, index, steps.batch, cell.width()), index % directions == 1);
        outputs.push_back(pass.activations.hidden);
        hidden_ends.push_back(pass.last_hidden);
        if (!train) continue;
        reset_gates[index].assign_reshaped(pass.activations.reset);
        update_gates[index].assign_reshaped(pass.activations.update);
        candidates[index].assign_reshaped(pass.activations.candidate);
        hidden_parts[index].assign_reshaped(pass.activations.hidden_part);
        hidden_states[index].assign_reshaped(pass.activations.hidden);
    }
    result.assign_reshaped(from_matrix(layer_input(first_input, outputs, static_cast<size_t>(layers), directions),
                                       steps, input.dim(), batch_first));
    last_hidden = at::stack(hidden_ends);
}

KERNEL_WITH_WORKSPACE(aclnnGRUBackward,
                      (Tensor input, TensorList parameters, OptionalTensor initial, OptionalTensor gradient,
                       OptionalTensor hidden_gradient, TensorList reset_gates, TensorList update_gates,
                       TensorList candidates, TensorList hidden_parts, TensorList hidden_states,
                       OptionalTensor batch_sizes, bool has_biases, int64_t layers, bool bidirectional,
                       bool batch_first, Output of_input, Output of_hidden_start, OutputList of_parameters)) {
    const Steps steps = steps_of(input, batch_sizes, batch_first, of_hidden_start.sizes().at(1));
    const Tensor first_input = as_matrix(input, batch_first);
    const size_t directions = bidirectional ? 2 : 1;
    const std::vector<Tensor> hiddens = as_matrices(hidden_states);
    const int64_t width = hiddens.at(0).size(1);
    std::vector<Tensor> hidden_starts(hiddens.size());
    Tensor above = output_gradient(gradient, first_input, width * static_cast<int64_t>(directions), batch_first);
    for (size_t layer = static_cast<size_t>(layers); layer-- > 0;) {
        const Tensor read = layer_input(first_input, hiddens, layer, directions);
        Tensor below = at::zeros_like(read);
        for (size_t direction = 0; direction < directions; ++direction) {
            const size_t index = layer * directions + direction;
            const auto kept = [index](const TensorList& list) { return as_matrix(list.at(index), false); };
            const GruActivations activations{kept(reset_gates), kept(update_gates), kept(candidates),
                                             kept(hidden_parts), hiddens.at(index)};
            const CellGradients gradients = gru_pass_backward(
                steps, read, cell_parameters(parameters, index, has_biases), activations,
                state_or_zero(initial, index, steps.batch, width), columns_of(above, direction, width),
                state_or_zero(hidden_gradient, index, steps.batch, width), direction == 1);
            assign_parameter_gradients(of_parameters, index, has_biases, gradients);
            below.add_(gradients.input);
            hidden_starts[index] = gradients.hidden_start;
        }
        above = below;
    }
    of_input.assign_reshaped(from_matrix(above, steps, input.dim(), batch_first));
    of_hidden_start = at::stack(hidden_starts);
}

// --- one step of LSTM; the storage keeps the four gates, activated

KERNEL(aclnnThnnFusedLstmCell, (Tensor input_gates, Tensor hidden_gates, Tensor cell, OptionalTensor input_bias,
                                OptionalTensor hidden_bias, Output result_hidden, Output result_cell, Output storage)) {
    for (const Tensor& operand : {input_gates, hidden_gates, cell}) require_floating(operand);
    Tensor gates = input_gates.to(at::kFloat) + hidden_gates;
    if (input_bias.has_value()) gates = gates + *input_bias;
    if (hidden_bias.has_value()) gates = gates + *hidden_bias;
    const auto raw = equal_parts(gates, 4, 1);
    const Tensor in = raw[0].sigmoid(), forget = raw[1].sigmoid(), candidate = raw[2].tanh(), out = raw[3].sigmoid();
    const Tensor next = forget * cell + in * candidate;
    storage = at::cat({in, forget, candidate, out}, 1);
    result_hidden = out * next.tanh();
    result_cell = next;
}

KERNEL(aclnnThnnFusedLstmCellBackward,
       (OptionalTensor hidden_gradient, OptionalTensor cell_gradient, Tensor cell_before, Tensor cell_after,
        Tensor storage, bool has_bias, Output gate_gradient, Output cell_before_gradient, Output bias_gradient)) {
    const auto kept = equal_parts(storage.to(at::kFloat), 4, 1);
    const Tensor in = kept[0], forget = kept[1], candidate = kept[2], out = kept[3];
    const Tensor squashed = cell_after.to(at::kFloat).tanh();
    const Tensor of_hidden = hidden_gradient.has_value() ? hidden_gradient->to(at::kFloat) : at::zeros_like(squashed);
    Tensor of_cell = of_hidden * out * tanh_slope(squashed);
    if (cell_gradient.has_value()) of_cell = of_cell + *cell_gradient;
    const Tensor gates =
        at::cat({of_cell * candidate * sigmoid_slope(in), of_cell * cell_before * sigmoid_slope(forget),
                 of_cell * in * tanh_slope(candidate), of_hidden * squashed * sigmoid_slope(out)},
                1);
    gate_gradient = gates;
    cell_before_gradient = of_cell * forget;
    if (has_bias) bias_gradient = gates.sum(0);
}

}  // namespace virtual_npu
