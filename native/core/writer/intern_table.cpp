#include "core/writer/intern_table.h"

#include "core/writer/resident_pages.h"
#include "core/writer/wiped_memory.h"

namespace msmemscope {

bool InternTable::create() noexcept {
    slots_ = static_cast<std::atomic<std::uint64_t>*>(map_wiped_memory(memory_limit_bytes()));
    return slots_ != nullptr;
}

std::size_t InternTable::memory_bytes() const noexcept {
    return resident_bytes(reinterpret_cast<std::uint64_t>(slots_), memory_limit_bytes(), kAllPieces);
}

}  // namespace msmemscope
