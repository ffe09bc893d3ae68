#include "offline/dump_rows/row_relations.h"

#include <unordered_map>
#include <vector>

#include "offline/dump_rows/hash_secret.h"

namespace msmemscope {
namespace {

// Blocks by their ids. Ids are numbers of rows as a rule: small, and each used once.
class BlockTable {
public:
    struct Block {
        std::uint64_t id;  // 0: free place
        std::uint64_t malloc_sequence;
        bool is_freed;
    };

    explicit BlockTable(std::size_t most_blocks) {
        std::size_t places = 64;
        while (places < most_blocks * 2) {
            places *= 2;
        }
        blocks_.resize(places, Block{0, 0, false});
        mask_ = places - 1;
    }

    // The block of an id, or the free place where it would be.
    Block& at(std::uint64_t id) {
        std::size_t place = secret_.mixed(id) & mask_;
        while (blocks_[place].id != 0 && blocks_[place].id != id) {
            place = (place + 1) & mask_;
        }
        return blocks_[place];
    }

private:
    const HashSecret secret_ = hash_secret();
    std::vector<Block> blocks_;
    std::size_t mask_;
};

struct SecretHash {
    HashSecret secret = hash_secret();

    std::size_t operator()(std::uint64_t value) const { return secret.mixed(value); }
};

struct RunningOperator {
    std::uint32_t depth = 0;
    std::uint32_t name = 0;
};

}  // namespace

void find_blocks(const RowRole* roles, const std::uint64_t* allocation_ids, const std::uint64_t* sequences,
                 std::size_t count, std::uint64_t* found) {
    std::size_t mallocs = 0;
    for (std::size_t row = 0; row < count; ++row) {
        mallocs += roles[row] == RowRole::kMalloc ? 1 : 0;
    }
    BlockTable blocks(mallocs);
    for (std::size_t row = 0; row < count; ++row) {
        found[row] = 0;
        const std::uint64_t id = allocation_ids[row];
        if (id == 0) {
            continue;
        }
        switch (roles[row]) {
            case RowRole::kMalloc:
                blocks.at(id) = {id, sequences[row], false};
                break;
            case RowRole::kFree: {
                BlockTable::Block& block = blocks.at(id);
                found[row] = block.is_freed ? 0 : block.malloc_sequence;
                block.is_freed = block.id != 0;
                break;
            }
            case RowRole::kAccess:
                found[row] = blocks.at(id).malloc_sequence;
                break;
            default:
                break;
        }
    }
}

void find_outermost_operators(const RowRole* roles, const std::uint32_t* threads, const std::uint32_t* names,
                              std::size_t count, std::uint32_t* found) {
    std::unordered_map<std::uint32_t, RunningOperator, SecretHash> of_thread;
    RunningOperator* running = nullptr;
    for (std::size_t row = 0; row < count; ++row) {
        if (running == nullptr || threads[row] != threads[row - 1]) {
            running = &of_thread[threads[row]];  // stays where it is while others are added
        }
        if (roles[row] == RowRole::kOperatorStart) {
            if (running->depth++ == 0) {
                running->name = names[row];
            }
        } else if (roles[row] == RowRole::kOperatorEnd && running->depth > 0 && --running->depth == 0) {
            running->name = 0;
        }
        found[row] = running->name;
    }
}

}  // namespace msmemscope
