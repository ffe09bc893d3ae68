// The parts of recurrent networks: passes over a batch of sequences in one layer and one direction.
//
// Everything here is in float. A batch of sequences is one matrix, ordered by time. It has a row for each element of
// each sequence. Packed sequences come like that, others are flattened.
#pragma once

#include <algorithm>

#include "kernel.h"

namespace virtual_npu {

// Where the rows of each time step are.
struct Steps {
    IntList begin, rows;
    int64_t batch = 0;

    int64_t count() const { return static_cast<int64_t>(rows.size()); }
    Tensor of(const Tensor& matrix, int64_t step) const { return matrix.narrow(0, begin[step], rows[step]); }

    // The order in which a direction visits the steps.
    int64_t visited(int64_t position, bool reverse) const { return reverse ? count() - 1 - position : position; }

    // The state that a step began with: what the step before it left, and the initial one where a sequence begins here.
    Tensor state_before(const Tensor& states, const Tensor& initial, int64_t position, bool reverse) const {
        const int64_t step = visited(position, reverse);
        Tensor state = initial.narrow(0, 0, rows[step]).clone();
        if (position > 0) {
            const int64_t previous = visited(position - 1, reverse);
            const int64_t common = std::min(rows[step], rows[previous]);
            state.narrow(0, 0, common).copy_(of(states, previous).narrow(0, 0, common));
        }
        return state;
    }
};

// The parameters of one layer in one direction: weights have a row for each number of each gate.
struct CellParameters {
    Tensor input_weight, hidden_weight, input_bias, hidden_bias;

    int64_t width() const { return hidden_weight.size(1); }
};

struct CellGradients {
    Tensor input, input_weight, hidden_weight, input_bias, hidden_bias, hidden_start, cell_start;
};

// at::linear; on tensors without data it does not look at the bias.
inline Tensor projected(const Tensor& input, const Tensor& weight, const Tensor& bias) {
    require_sizes(bias, {weight.size(0)}, "the bias");
    return at::linear(input, weight, bias);
}

inline Tensor sigmoid_slope(const Tensor& value) { return value * (1 - value); }
inline Tensor tanh_slope(const Tensor& value) { return 1 - value * value; }

// The gradients that are the same for every kind of cell.
inline CellGradients cell_gradients(const CellParameters& cell, const Tensor& input, const Tensor& states_before,
                                    const Tensor& of_input_gates, const Tensor& of_hidden_gates) {
    CellGradients gradients;
    gradients.input = of_input_gates.matmul(cell.input_weight);
    gradients.input_weight = of_input_gates.t().matmul(input);
    gradients.hidden_weight = of_hidden_gates.t().matmul(states_before);
    gradients.input_bias = of_input_gates.sum(0);
    gradients.hidden_bias = of_hidden_gates.sum(0);
    return gradients;
}

// --- LSTM; the parameters hold the gates in the order input, forget, candidate, output

struct LstmActivations {
    Tensor input, forget, candidate, output, hidden, cell, cell_tanh;
};

struct LstmPass {
    LstmActivations activations;  // rows of padding are zero
    Tensor last_hidden, last_cell;
};

inline LstmPass lstm_pass(const Steps& steps, const Tensor& input, const CellParameters& cell,
                          const Tensor& first_hidden, const Tensor& first_cell, bool reverse) {
    const Tensor from_input = projected(input, cell.input_weight, cell.input_bias);
    LstmPass pass;
    pass.last_hidden = first_hidden.clone();
    pass.last_cell = first_cell.clone();
    const Tensor gates = at::zeros_like(from_input), hiddens = at::zeros({input.size(0), cell.width()});
    const Tensor cells = at::zeros_like(hiddens);
    for (int64_t position = 0; position < steps.count(); ++position) {
        const int64_t step = steps.visited(position, reverse);
        const Tensor state = pass.last_hidden.narrow(0, 0, steps.rows[step]);
        const Tensor memory = pass.last_cell.narrow(0, 0, steps.rows[step]);
        const auto raw =
            equal_parts(steps.of(from_input, step) + projected(state, cell.hidden_weight, cell.hidden_bias), 4, 1);
        const Tensor in = raw[0].sigmoid(), forget = raw[1].sigmoid(), candidate = raw[2].tanh(),
                     out = raw[3].sigmoid();
        memory.copy_(forget * memory + in * candidate);
        state.copy_(out * memory.tanh());
        steps.of(gates, step).copy_(at::cat({in, forget, candidate, out}, 1));
        steps.of(hiddens, step).copy_(state);
        steps.of(cells, step).copy_(memory);
    }
    const auto each = equal_parts(gates, 4, 1);
    pass.activations = {each[0], each[1], each[2], each[3], hiddens, cells, cells.tanh()};
    return pass;
}

// `of_hidden` and `of_cell` are the gradients of the last state.
inline CellGradients lstm_pass_backward(const Steps& steps, const Tensor& input, const CellParameters& cell,
                                        const LstmActivations& kept, const Tensor& first_hidden,
                                        const Tensor& first_cell, const Tensor& of_output, const Tensor& of_hidden,
                                        const Tensor& of_cell, bool reverse) {
    const Tensor hidden_gradient = of_hidden.clone(), cell_gradient = of_cell.clone();
    const Tensor of_gates = at::zeros({input.size(0), 4 * cell.width()});
    const Tensor states_before = at::zeros({input.size(0), cell.width()});
    for (int64_t position = steps.count(); position-- > 0;) {
        const int64_t step = steps.visited(position, reverse);
        const Tensor in = steps.of(kept.input, step), forget = steps.of(kept.forget, step);
        const Tensor candidate = steps.of(kept.candidate, step), out = steps.of(kept.output, step);
        const Tensor squashed = steps.of(kept.cell_tanh, step);
        const Tensor memory_before = steps.state_before(kept.cell, first_cell, position, reverse);
        const Tensor hidden_rows = hidden_gradient.narrow(0, 0, steps.rows[step]);
        const Tensor cell_rows = cell_gradient.narrow(0, 0, steps.rows[step]);
        const Tensor of_state = hidden_rows + steps.of(of_output, step);
        const Tensor of_memory = cell_rows + of_state * out * tanh_slope(squashed);
        const Tensor of_step =
            at::cat({of_memory * candidate * sigmoid_slope(in), of_memory * memory_before * sigmoid_slope(forget),
                     of_memory * in * tanh_slope(candidate), of_state * squashed * sigmoid_slope(out)},
                    1);
        steps.of(of_gates, step).copy_(of_step);
        steps.of(states_before, step).copy_(steps.state_before(kept.hidden, first_hidden, position, reverse));
        hidden_rows.copy_(of_step.matmul(cell.hidden_weight));
        cell_rows.copy_(of_memory * forget);
    }
    CellGradients gradients = cell_gradients(cell, input, states_before, of_gates, of_gates);
    gradients.hidden_start = hidden_gradient;
    gradients.cell_start = cell_gradient;
    return gradients;
}

// --- GRU; the parameters hold the gates in the order reset, update, candidate

struct GruActivations {
    Tensor reset, update, candidate, hidden_part, hidden;  // hidden_part: what the state adds to the candidate
};

struct GruPass {
    GruActivations activations;
    Tensor last_hidden;
};

inline GruPass gru_pass(const Steps& steps, const Tensor& input, const CellParameters& cell, const Tensor& first_hidden,
                        bool reverse) {
    const Tensor from_input = projected(input, cell.input_weight, cell.input_bias);
    GruPass pass;
    pass.last_hidden = first_hidden.clone();
    const Tensor kept = at::zeros({input.size(0), 4 * cell.width()}),
                 hiddens = at::zeros({input.size(0), cell.width()});
    for (int64_t position = 0; position < steps.count(); ++position) {
        const int64_t step = steps.visited(position, reverse);
        const Tensor state = pass.last_hidden.narrow(0, 0, steps.rows[step]);
        const auto of_input = equal_parts(steps.of(from_input, step), 3, 1);
        const auto of_hidden = equal_parts(projected(state, cell.hidden_weight, cell.hidden_bias), 3, 1);
        const Tensor reset = (of_input[0] + of_hidden[0]).sigmoid(), update = (of_input[1] + of_hidden[1]).sigmoid();
        const Tensor candidate = (of_input[2] + reset * of_hidden[2]).tanh();
        state.copy_(candidate + update * (state - candidate));
        steps.of(kept, step).copy_(at::cat({reset, update, candidate, of_hidden[2]}, 1));
        steps.of(hiddens, step).copy_(state);
    }
    const auto each = equal_parts(kept, 4, 1);
    pass.activations = {each[0], each[1], each[2], each[3], hiddens};
    return pass;
}

inline CellGradients gru_pass_backward(const Steps& steps, const Tensor& input, const CellParameters& cell,
                                       const GruActivations& kept, const Tensor& first_hidden, const Tensor& of_output,
                                       const Tensor& of_hidden, bool reverse) {
    const Tensor hidden_gradient = of_hidden.clone();
    const Tensor of_input_gates = at::zeros({input.size(0), 3 * cell.width()});
    const Tensor of_hidden_gates = at::zeros_like(of_input_gates);
    const Tensor states_before = at::zeros({input.size(0), cell.width()});
    for (int64_t position = steps.count(); position-- > 0;) {
        const int64_t step = steps.visited(position, reverse);
        const Tensor reset = steps.of(kept.reset, step), update = steps.of(kept.update, step);
        const Tensor candidate = steps.of(kept.candidate, step);
        const Tensor before = steps.state_before(kept.hidden, first_hidden, position, reverse);
        const Tensor hidden_rows = hidden_gradient.narrow(0, 0, steps.rows[step]);
        const Tensor of_state = hidden_rows + steps.of(of_output, step);
        const Tensor of_candidate = of_state * (1 - update) * tanh_slope(candidate);
        const Tensor of_update = of_state * (before - candidate) * sigmoid_slope(update);
        const Tensor of_reset = of_candidate * steps.of(kept.hidden_part, step) * sigmoid_slope(reset);
        const Tensor of_step = at::cat({of_reset, of_update, of_candidate * reset}, 1);
        steps.of(of_input_gates, step).copy_(at::cat({of_reset, of_update, of_candidate}, 1));
        steps.of(of_hidden_gates, step).copy_(of_step);
        steps.of(states_before, step).copy_(before);
        hidden_rows.copy_(of_state * update + of_step.matmul(cell.hidden_weight));
    }
    CellGradients gradients = cell_gradients(cell, input, states_before, of_input_gates, of_hidden_gates);
    gradients.hidden_start = hidden_gradient;
    return gradients;
}

}  // namespace virtual_npu
