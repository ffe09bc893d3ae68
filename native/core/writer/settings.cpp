#include "core/writer/settings.h"

#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace msmemscope {
namespace {

struct Line {
    const char* key;
    std::size_t key_bytes;
    const char* value;
    std::size_t value_bytes;

    bool is(const char* name) const noexcept {
        return std::strlen(name) == key_bytes && std::memcmp(name, key, key_bytes) == 0;
    }
    bool value_is(const char* text) const noexcept {
        return std::strlen(text) == value_bytes && std::memcmp(text, value, value_bytes) == 0;
    }
    bool copy_value(char* out, std::size_t capacity) const noexcept {
        if (value_bytes >= capacity) {
            return false;
        }
        std::memcpy(out, value, value_bytes);
        out[value_bytes] = '\0';
        return true;
    }
    // The value's digits in the given base; the value ends at a newline or the terminator.
    std::uint64_t number(int base) const noexcept { return std::strtoull(value, nullptr, base); }
    // Whether the comma list contains the word.
    bool lists(const char* word) const noexcept {
        const std::size_t word_bytes = std::strlen(word);
        std::size_t begin = 0;
        for (std::size_t index = 0; index <= value_bytes; ++index) {
            if (index == value_bytes || value[index] == ',') {
                if (index - begin == word_bytes && std::memcmp(value + begin, word, word_bytes) == 0) {
                    return true;
                }
                begin = index + 1;
            }
        }
        return false;
    }
};

std::uint32_t limited_depth(const Line& line) noexcept {
    const std::uint64_t depth = line.number(10);
    return depth > kMaximumStackDepth ? kMaximumStackDepth : static_cast<std::uint32_t>(depth);
}

std::uint32_t selected_events(const Line& line) noexcept {
    std::uint32_t events = 0;
    events |= line.lists("alloc") ? kSelectAlloc : 0U;
    events |= line.lists("free") ? kSelectFree : 0U;
    events |= line.lists("launch") ? kSelectLaunch : 0U;
    events |= line.lists("access") ? kSelectAccess : 0U;
    events |= line.lists("traceback") ? kSelectTraceback : 0U;
    events |= line.lists("allocator") ? kSelectAllocator : 0U;
    return events;
}

// One word of --device: "cpu", a kind ("npu"), or a device of a kind ("cuda:1").
void select_device(const Line& word, DeviceSelection& devices) noexcept {
    if (word.value_is("cpu")) {
        devices.cpu = true;
    }
    for (int kind = 0; kind < format::kDeviceKinds; ++kind) {
        const char* const name = format::kDeviceKindWords[kind];
        const std::size_t name_bytes = std::strlen(name);
        if (word.value_bytes < name_bytes || std::memcmp(word.value, name, name_bytes) != 0) {
            continue;
        }
        const auto bit = static_cast<std::uint8_t>(1U << static_cast<unsigned>(kind));
        if (word.value_bytes == name_bytes) {
            devices.whole_kinds |= bit;
            devices.kinds |= bit;
        } else if (word.value[name_bytes] == ':' && devices.named_count < DeviceSelection::kMostNamed) {
            const auto index = static_cast<int>(std::strtoul(word.value + name_bytes + 1, nullptr, 10));
            devices.named[devices.named_count++] = format::device_of(static_cast<format::DeviceKind>(kind), index);
            devices.kinds |= bit;
        }
    }
}

DeviceSelection selected_devices(const Line& line) noexcept {
    DeviceSelection devices{};
    const char* const end = line.value + line.value_bytes;
    for (const char* begin = line.value; begin < end;) {
        const auto* comma = static_cast<const char*>(std::memchr(begin, ',', static_cast<std::size_t>(end - begin)));
        const char* const last = comma == nullptr ? end : comma;
        select_device({"", 0, begin, static_cast<std::size_t>(last - begin)}, devices);
        begin = last + 1;
    }
    return devices;
}

void read_steps(const Line& line, Settings& settings) noexcept {
    const char* const end = line.value + line.value_bytes;
    const char* cursor = line.value;
    settings.step_count = 0;
    while (cursor < end && settings.step_count < Settings::kMostSteps) {
        char* after = nullptr;
        settings.steps[settings.step_count++] = static_cast<std::uint32_t>(std::strtoul(cursor, &after, 10));
        cursor = after == cursor ? end : after + 1;  // past the comma
    }
    settings.first_step_selected = line.value_bytes == 0 || line.lists("1");
}

bool copy_name(const char* begin, const char* end, char (&name)[Settings::kLongestWatchName + 1]) noexcept {
    const auto bytes = static_cast<std::size_t>(end - begin);
    if (bytes >= sizeof(name)) {
        return false;
    }
    std::memcpy(name, begin, bytes);
    name[bytes] = '\0';
    return true;
}

// The text is "auto" and "full-content", or "start:output,end,full-content". All parts except the end can be missing.
// WatchWindow.to_text in src/msmemscope/configuration/watching.py writes it.
bool read_watch(const Line& line, Settings& settings) noexcept {
    settings.watch_auto = line.lists("auto");
    settings.watch_full_content = line.lists("full-content");
    const char* names[2][2];
    int count = 0;
    const char* const end = line.value + line.value_bytes;
    for (const char* begin = line.value; begin < end && count < 2;) {
        const auto* comma = static_cast<const char*>(std::memchr(begin, ',', static_cast<std::size_t>(end - begin)));
        const char* const last = comma == nullptr ? end : comma;
        const Line word{"", 0, begin, static_cast<std::size_t>(last - begin)};
        if (!word.value_is("auto") && !word.value_is("full-content")) {
            names[count][0] = begin;
            names[count++][1] = last;
        }
        begin = comma == nullptr ? end : comma + 1;
    }
    if (count == 2) {
        const char* colon = names[0][1];
        while (colon > names[0][0] && *colon != ':') {
            --colon;
        }
        const bool has_output = *colon == ':';
        settings.watch_output = has_output ? static_cast<std::int32_t>(std::strtol(colon + 1, nullptr, 10)) : -1;
        if (!copy_name(names[0][0], has_output ? colon : names[0][1], settings.watch_start)) {
            return false;
        }
    }
    return count == 0 || copy_name(names[count - 1][0], names[count - 1][1], settings.watch_end);
}

bool apply(const Line& line, Settings& settings) noexcept {
    if (line.is("output")) {
        return line.copy_value(settings.output, sizeof(settings.output));
    }
    if (line.is("launch_directory")) {
        return line.copy_value(settings.launch_directory, sizeof(settings.launch_directory));
    }
    if (line.is("watch")) {
        return read_watch(line, settings);
    }
    if (line.is("session")) {
        settings.session = line.number(16);
    } else if (line.is("events")) {
        settings.events = selected_events(line);
    } else if (line.is("python_stack")) {
        settings.write_python_stack = line.value_is("1");
    } else if (line.is("python_stack_depth")) {
        settings.python_stack_depth = limited_depth(line);
    } else if (line.is("native_stack_depth")) {
        settings.native_stack_depth = limited_depth(line);
    } else if (line.is("maximum_size")) {
        settings.maximum_size_bytes = line.number(10);
    } else if (line.is("log_level")) {
        settings.prints_errors_alone = line.value_is("error");
    } else if (line.is("oom_top")) {
        settings.oom_top = static_cast<std::uint32_t>(line.number(10));
    } else if (line.is("watch_budget")) {
        settings.watch_budget_bytes = line.number(10);
    } else if (line.is("watch_max_size")) {
        settings.watch_max_size_bytes = line.number(10);
    } else if (line.is("watch_checksum")) {
        settings.watch_crc64 = line.value_is("crc64");
    } else if (line.is("utc_offset")) {
        settings.utc_offset_seconds = std::strtoll(line.value, nullptr, 10);
    } else if (line.is("collect_mode")) {
        settings.collect_immediately = line.value_is("immediate");
    } else if (line.is("steps")) {
        read_steps(line, settings);
    } else if (line.is("devices")) {
        settings.devices = selected_devices(line);
    } else if (line.is("host")) {
        settings.host_sampling = line.value_is("off")   ? HostSampling::kOff
                                 : line.value_is("all") ? HostSampling::kAll
                                                        : HostSampling::kSampled;
    } else if (line.is("host_sample_bytes")) {
        settings.host_sample_bytes = line.number(10);
    } else if (line.is("level")) {
        settings.collect_kernels = line.lists("kernel");
        settings.collect_operators = line.lists("op");
    }
    return true;
}

// Parsed here first, so that a text that cannot be used changes nothing. Static because it is
// too large for a small thread's stack; only ever used by one thread (load time or under the GIL).
Settings parsed;

}  // namespace

bool Settings::parse(const char* settings_text) noexcept {
    const std::size_t bytes = std::strlen(settings_text);
    if (bytes >= kTextCapacity) {
        return false;
    }
    std::memset(static_cast<void*>(&parsed), 0, sizeof(parsed));
    std::memcpy(parsed.text, settings_text, bytes + 1);
    parsed.text_bytes = bytes;
    parsed.first_step_selected = true;
    parsed.watch_output = -1;
    const char* cursor = parsed.text;
    while (*cursor != '\0') {
        const char* end = std::strchr(cursor, '\n');
        if (end == nullptr) {
            end = parsed.text + bytes;
        }
        const auto* equals = static_cast<const char*>(std::memchr(cursor, '=', static_cast<std::size_t>(end - cursor)));
        if (equals != nullptr) {
            const Line line{cursor, static_cast<std::size_t>(equals - cursor), equals + 1,
                            static_cast<std::size_t>(end - equals - 1)};
            if (!apply(line, parsed)) {
                return false;
            }
        }
        cursor = *end == '\0' ? end : end + 1;
    }
    if (parsed.output[0] != '/') {
        return false;
    }
    *this = parsed;
    return true;
}

}  // namespace msmemscope
