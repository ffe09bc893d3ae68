#include "offline/dump_rows/hash_secret.h"

#include <sys/random.h>

#include <ctime>

namespace msmemscope {
namespace {

HashSecret chosen() {
    HashSecret secret{};
    if (getrandom(&secret, sizeof(secret), GRND_NONBLOCK) != static_cast<ssize_t>(sizeof(secret))) {
        // Right after the machine has started: less chance is better than waiting for it.
        timespec now{};
        clock_gettime(CLOCK_MONOTONIC, &now);
        secret.seed = static_cast<std::uint64_t>(now.tv_nsec) * 0x9e3779b97f4a7c15;
        secret.multiplier = reinterpret_cast<std::uintptr_t>(&now) * 0xd1342543de82ef95 + secret.seed;
    }
    secret.multiplier |= 1;
    return secret;
}

}  // namespace

const HashSecret& hash_secret() {
    static const HashSecret secret = chosen();
    return secret;
}

}  // namespace msmemscope
