// Year to second of a moment, for names of folders and files.
#pragma once

#include <cstdint>

namespace msmemscope {

struct CivilTime {
    int year, month, day, hour, minute, second;
};

// The C library's localtime takes a lock that a forked child may find held for ever. Days to
// year-month-day after Howard Hinnant, "chrono-Compatible Low-Level Date Algorithms".
inline CivilTime civil_time(std::int64_t seconds) noexcept {
    std::int64_t days = seconds / 86400;
    std::int64_t rest = seconds % 86400;
    if (rest < 0) {
        rest += 86400;
        --days;
    }
    days += 719468;
    const std::int64_t era = (days >= 0 ? days : days - 146096) / 146097;
    const auto day_of_era = static_cast<unsigned>(days - era * 146097);
    const unsigned year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36524 - day_of_era / 146096) / 365;
    const unsigned day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    const unsigned shifted_month = (5 * day_of_year + 2) / 153;
    CivilTime civil{};
    civil.day = static_cast<int>(day_of_year - (153 * shifted_month + 2) / 5 + 1);
    civil.month = static_cast<int>(shifted_month < 10 ? shifted_month + 3 : shifted_month - 9);
    civil.year = static_cast<int>(static_cast<std::int64_t>(year_of_era) + era * 400 + (civil.month <= 2 ? 1 : 0));
    civil.hour = static_cast<int>(rest / 3600);
    civil.minute = static_cast<int>(rest / 60 % 60);
    civil.second = static_cast<int>(rest % 60);
    return civil;
}

}  // namespace msmemscope
