#include "registry.h"

#include <unordered_map>
#include <utility>

#include "call_errors.h"

namespace virtual_npu {
namespace {

std::mutex guard;
std::unordered_map<void*, std::shared_ptr<Communicator>>& communicators() {
    // Never destroyed: a program that ends without destroying its communicators may still be in a call.
    static auto* table = new std::unordered_map<void*, std::shared_ptr<Communicator>>();
    return *table;
}

}  // namespace

void* add_communicator(std::shared_ptr<Communicator> communicator) {
    const std::lock_guard<std::mutex> lock(guard);
    void* handle = communicator.get();
    communicators()[handle] = std::move(communicator);
    return handle;
}

std::shared_ptr<Communicator> find_communicator(void* handle, const char* call) {
    const std::lock_guard<std::mutex> lock(guard);
    const auto place = communicators().find(handle);
    if (place != communicators().end()) return place->second;
    report(kHcclInvalidParameter, "EI0003: %s: %p is not a communicator, or not any more", call, handle);
    return nullptr;
}

std::shared_ptr<Communicator> remove_communicator(void* handle) {
    const std::lock_guard<std::mutex> lock(guard);
    const auto place = communicators().find(handle);
    if (place == communicators().end()) return nullptr;
    std::shared_ptr<Communicator> communicator = std::move(place->second);
    communicators().erase(place);
    return communicator;
}

}  // namespace virtual_npu
