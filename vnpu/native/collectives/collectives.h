// The collectives, after their arguments were checked. Each returns 0 or a Result, with the error text set.
#pragma once

#include <vector>

#include "exchange.h"

namespace virtual_npu {

// Elements of one type that are reduced.
struct Reduced {
    int type;
    int reduction;
};

int all_reduce(Exchange& call, const std::byte* input, std::byte* output, uint64_t count, Reduced reduced);
int reduce_to_root(Exchange& call, Piece input, std::byte* output, uint32_t root, Reduced reduced);
int broadcast(Exchange& call, Place data, uint32_t root);
// targets[i] is where the bytes of rank i go.
int all_gather(Exchange& call, Piece input, const std::vector<Place>& targets);
// pieces[i] is reduced on rank i; all ranks have the same sizes of pieces.
int reduce_scatter(Exchange& call, const std::vector<Piece>& pieces, std::byte* output, Reduced reduced);
// pieces are the root's; the others have none.
int scatter(Exchange& call, const std::vector<Piece>& pieces, Place target, uint32_t root);
// pieces[i] goes to rank i, targets[i] comes from rank i; `longest` of all pieces of all ranks.
int all_to_all(Exchange& call, const std::vector<Piece>& pieces, const std::vector<Place>& targets, uint64_t longest);

// For an all-to-all in which a rank knows only its own sizes: meets, compares what the ranks expect of each other and
// finds the longest piece of all.
int agree_on_pieces(Exchange& call, const std::vector<Piece>& pieces, const std::vector<Place>& targets,
                    uint64_t* longest, uint64_t* total);

}  // namespace virtual_npu
