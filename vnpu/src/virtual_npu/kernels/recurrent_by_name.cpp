// LSTM and GRU of the older operator interface (aclop), which knows an operator by its name. The aclnn functions do not
// take LSTM with several layers, both directions or no biases, nor bfloat16. For these torch_npu uses the kernels here.
//
// Each call is one layer in one direction. Time is the first dimension.
#include "kernel.h"
#include "recurrent.h"

namespace virtual_npu {
namespace {

bool is_reverse(const Attributes& attributes) { return attributes.text("direction") == "REDIRECTIONAL"; }

// For sequences of different lengths, sorted by length, the mask is one where a step belongs to a sequence.
Steps masked_steps(const Tensor& input, const OptionalTensor& mask) {
    Steps steps;
    steps.batch = input.size(1);
    const bool has_mask = mask.has_value() && mask->dim() > 1;
    for (int64_t step = 0; step < input.size(0); ++step) {
        steps.begin.push_back(step * steps.batch);
        steps.rows.push_back(has_mask ? mask->select(0, step).select(1, 0).gt(0).sum().item<int64_t>() : steps.batch);
    }
    return steps;
}

Tensor rows_of(const Tensor& sequences) {
    require_floating(sequences);
    return sequences.to(at::kFloat).reshape({-1, sequences.size(-1)});
}

// Here weights have a column for each number of each gate, and the bias is one.
CellParameters joined_cell(const Tensor& weight, const Tensor& bias, int64_t features) {
    require_floating(weight);
    require_floating(bias);
    const Tensor columns = weight.to(at::kFloat).t();
    return {columns.narrow(1, 0, features), columns.narrow(1, features, columns.size(1) - features),
            bias.to(at::kFloat), at::zeros({columns.size(0)})};
}

CellParameters separate_cell(const Tensor& input_weight, const Tensor& hidden_weight, const OptionalTensor& input_bias,
                             const OptionalTensor& hidden_bias) {
    require_floating(input_weight);
    require_floating(hidden_weight);
    const Tensor none = at::zeros({input_weight.size(1)});
    return {input_weight.to(at::kFloat).t(), hidden_weight.to(at::kFloat).t(),
            input_bias.has_value() ? input_bias->to(at::kFloat) : none,
            hidden_bias.has_value() ? hidden_bias->to(at::kFloat) : none};
}

// The states after every step of the whole batch. A sequence that has ended keeps its last state, because the caller
// reads the state of the last step.
Tensor carried(const Steps& steps, const Tensor& states) {
    Tensor all = states.clone();
    for (int64_t step = 1; step < steps.count(); ++step) {
        const int64_t ended = steps.batch - steps.rows[step];
        if (ended == 0) continue;
        all.narrow(0, steps.begin[step] + steps.rows[step], ended)
            .copy_(all.narrow(0, steps.begin[step - 1] + steps.rows[step], ended));
    }
    return all;
}

struct LstmOutputs {
    Output result, hidden, cell, input_gate, candidate, forget_gate, output_gate, cell_tanh;

    void assign(const Steps& steps, const LstmPass& pass) {
        result.assign_reshaped(pass.activations.hidden);
        hidden.assign_reshaped(carried(steps, pass.activations.hidden));
        cell.assign_reshaped(carried(steps, pass.activations.cell));
        input_gate.assign_reshaped(pass.activations.input);
        candidate.assign_reshaped(pass.activations.candidate);
        forget_gate.assign_reshaped(pass.activations.forget);
        output_gate.assign_reshaped(pass.activations.output);
        cell_tanh.assign_reshaped(pass.activations.cell_tanh);
    }
};

}  // namespace

KERNEL(DynamicRNN, (Tensor input, Tensor weight, Tensor bias, OptionalTensor mask, Tensor first_hidden,
                    Tensor first_cell, Output result, Output hidden, Output cell, Output input_gate, Output candidate,
                    Output forget_gate, Output output_gate, Output cell_tanh, Attributes attributes)) {
    const Steps steps = masked_steps(input, mask);
    LstmOutputs{result, hidden, cell, input_gate, candidate, forget_gate, output_gate, cell_tanh}.assign(
        steps, lstm_pass(steps, rows_of(input), joined_cell(weight, bias, input.size(2)), rows_of(first_hidden),
                         rows_of(first_cell), is_reverse(attributes)));
}

KERNEL(DynamicRNNGrad,
       (Tensor input, Tensor weight, Tensor bias, Tensor /*result*/, Tensor first_hidden, Tensor first_cell,
        Tensor hidden, Tensor cell, Tensor gradient, Tensor hidden_gradient, Tensor cell_gradient, Tensor input_gate,
        Tensor candidate, Tensor forget_gate, Tensor output_gate, Tensor cell_tanh, OptionalTensor mask,
        OptionalTensor /*mask*/, OptionalTensor /*peephole*/, OptionalTensor /*peephole*/, OptionalTensor /*peephole*/,
        Output of_weight, Output of_bias, Output of_input, Output of_first_hidden, Output of_first_cell,
        Attributes attributes)) {
    const LstmActivations activations{rows_of(input_gate),  rows_of(forget_gate), rows_of(candidate),
                                      rows_of(output_gate), rows_of(hidden),      rows_of(cell),
                                      rows_of(cell_tanh)};
    const CellGradients gradients =
        lstm_pass_backward(masked_steps(input, mask), rows_of(input), joined_cell(weight, bias, input.size(2)),
                           activations, rows_of(first_hidden), rows_of(first_cell), rows_of(gradient),
                           rows_of(hidden_gradient), rows_of(cell_gradient), is_reverse(attributes));
    of_weight = at::cat({gradients.input_weight, gradients.hidden_weight}, 1).t();
    of_bias = gradients.input_bias;
    of_input.assign_reshaped(gradients.input);
    of_first_hidden.assign_reshaped(gradients.hidden_start);
    of_first_cell.assign_reshaped(gradients.cell_start);
}

KERNEL(DynamicRNNV2,
       (Tensor input, Tensor input_weight, Tensor hidden_weight, OptionalTensor bias, OptionalTensor mask,
        Tensor first_hidden, Tensor first_cell, Output result, Output hidden, Output cell, Output input_gate,
        Output candidate, Output forget_gate, Output output_gate, Output cell_tanh, Attributes attributes)) {
    const Steps steps = masked_steps(input, mask);
    LstmOutputs{result, hidden, cell, input_gate, candidate, forget_gate, output_gate, cell_tanh}.assign(
        steps, lstm_pass(steps, rows_of(input), separate_cell(input_weight, hidden_weight, bias, {}),
                         rows_of(first_hidden), rows_of(first_cell), is_reverse(attributes)));
}

// torch_npu describes the input of a single step as a matrix here.
KERNEL(DynamicRNNV2Grad,
       (Tensor input, Tensor input_weight, Tensor hidden_weight, Tensor /*result*/, Tensor first_hidden,
        Tensor first_cell, Tensor hidden, Tensor cell, Tensor gradient, Tensor hidden_gradient, Tensor cell_gradient,
        Tensor input_gate, Tensor candidate, Tensor forget_gate, Tensor output_gate, Tensor cell_tanh,
        OptionalTensor mask, OptionalTensor /*peephole*/, OptionalTensor /*peephole*/, OptionalTensor /*peephole*/,
        OptionalTensor /*mask*/, Output of_input_weight, Output of_hidden_weight, Output of_bias, Output of_input,
        Output of_first_hidden, Output of_first_cell, Attributes attributes)) {
    const LstmActivations activations{rows_of(input_gate),  rows_of(forget_gate), rows_of(candidate),
                                      rows_of(output_gate), rows_of(hidden),      rows_of(cell),
                                      rows_of(cell_tanh)};
    const Tensor sequences = input.dim() == 2 ? input.unsqueeze(0) : input;
    const CellGradients gradients = lstm_pass_backward(
        masked_steps(sequences, mask), rows_of(sequences), separate_cell(input_weight, hidden_weight, {}, {}),
        activations, rows_of(first_hidden), rows_of(first_cell), rows_of(gradient), rows_of(hidden_gradient),
        rows_of(cell_gradient), is_reverse(attributes));
    of_input_weight = gradients.input_weight.t();
    of_hidden_weight = gradients.hidden_weight.t();
    of_bias = gradients.input_bias;
    of_input.assign_reshaped(gradients.input);
    of_first_hidden.assign_reshaped(gradients.hidden_start);
    of_first_cell.assign_reshaped(gradients.cell_start);
}

KERNEL(DynamicGRUV2,
       (Tensor input, Tensor input_weight, Tensor hidden_weight, OptionalTensor input_bias, OptionalTensor hidden_bias,
        OptionalTensor mask, Tensor first_hidden, Output result, Output hidden, Output update, Output reset,
        Output candidate, Output hidden_part, Attributes attributes)) {
    const Steps steps = masked_steps(input, mask);
    const GruPass pass =
        gru_pass(steps, rows_of(input), separate_cell(input_weight, hidden_weight, input_bias, hidden_bias),
                 rows_of(first_hidden), is_reverse(attributes));
    result.assign_reshaped(pass.activations.hidden);
    hidden.assign_reshaped(carried(steps, pass.activations.hidden));
    update.assign_reshaped(pass.activations.update);
    reset.assign_reshaped(pass.activations.reset);
    candidate.assign_reshaped(pass.activations.candidate);
    hidden_part.assign_reshaped(pass.activations.hidden_part);
}

KERNEL(DynamicGRUV2Grad,
       (Tensor input, Tensor input_weight, Tensor hidden_weight, Tensor /*result*/, Tensor first_hidden, Tensor hidden,
        Tensor gradient, Tensor hidden_gradient, Tensor update, Tensor reset, Tensor candidate, Tensor hidden_part,
        OptionalTensor mask, OptionalTensor /*mask*/, Output of_input_weight, Output of_hidden_weight,
        Output of_input_bias, Output of_hidden_bias, Output of_input, Output of_first_hidden, Attributes attributes)) {
    const GruActivations activations{rows_of(reset), rows_of(update), rows_of(candidate), rows_of(hidden_part),
                                     rows_of(hidden)};
    const CellGradients gradients = gru_pass_backward(
        masked_steps(input, mask), rows_of(input), separate_cell(input_weight, hidden_weight, {}, {}), activations,
        rows_of(first_hidden), rows_of(gradient), rows_of(hidden_gradient), is_reverse(attributes));
    of_input_weight = gradients.input_weight.t();
    of_hidden_weight = gradients.hidden_weight.t();
    of_input_bias = gradients.input_bias;
    of_hidden_bias = gradients.hidden_bias;
    of_input.assign_reshaped(gradients.input);
    of_first_hidden.assign_reshaped(gradients.hidden_start);
}

}  // namespace virtual_npu
