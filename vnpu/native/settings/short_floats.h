// Numbers of 16 bits, and how they become floats and are made of them.
#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>

namespace virtual_npu {

struct Float16 {
    uint16_t bits;
};
struct Bfloat16 {
    uint16_t bits;
};

inline float bits_to_float(uint32_t bits) {
    float value;
    std::memcpy(&value, &bits, sizeof value);
    return value;
}

inline uint32_t float_to_bits(float value) {
    uint32_t bits;
    std::memcpy(&bits, &value, sizeof bits);
    return bits;
}

inline float widen(Bfloat16 value) { return bits_to_float(static_cast<uint32_t>(value.bits) << 16); }

inline float widen(Float16 value) {
    const uint32_t sign = static_cast<uint32_t>(value.bits & 0x8000u) << 16;
    const uint32_t exponent = (value.bits >> 10) & 0x1fu;
    const uint32_t fraction = value.bits & 0x3ffu;
    if (exponent == 0x1f) return bits_to_float(sign | 0x7f800000u | (fraction << 13));
    if (exponent != 0) return bits_to_float(sign | ((exponent + 112) << 23) | (fraction << 13));
    const float subnormal = std::ldexp(static_cast<float>(fraction), -24);
    return sign != 0 ? -subnormal : subnormal;
}

// To the nearest, and to the even one of two equally near.
inline void narrow(float value, Bfloat16* result) {
    const uint32_t bits = float_to_bits(value);
    if (std::isnan(value)) {
        result->bits = static_cast<uint16_t>((bits >> 16) | 0x40u);
    } else {
        result->bits = static_cast<uint16_t>((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16);
    }
}

inline void narrow(float value, Float16* result) {
    const uint32_t bits = float_to_bits(value);
    const auto sign = static_cast<uint16_t>((bits >> 16) & 0x8000u);
    const uint32_t magnitude = bits & 0x7fffffffu;
    uint32_t half;
    if (magnitude > 0x7f800000u) {
        half = 0x7e00u;
    } else if (magnitude >= 0x477ff000u) {  // 65520 and above round to infinity
        half = 0x7c00u;
    } else if (magnitude < 0x38800000u) {  // below the smallest normal number: a multiple of 2^-24
        half = static_cast<uint32_t>(std::nearbyint(std::ldexp(bits_to_float(magnitude), 24)));
    } else {
        half = (magnitude - 0x38000000u + 0xfffu + ((magnitude >> 13) & 1u)) >> 13;
    }
    result->bits = static_cast<uint16_t>(sign | half);
}

}  // namespace virtual_npu
