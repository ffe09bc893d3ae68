// One redirected function: how a hook is declared, and how it reaches the function that it stands in front of.
//
// Two libraries may each bring a function of the same name, and callers of both may be loaded. So a hook has several
// entries with the same body, one for each real function. The caller's slot gets the entry that leads to the function
// that the slot held. If no entry is left, the slot stays as it is.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>

#include "core/writer/recorder.h"

namespace msmemscope {

inline constexpr std::size_t kHookEntries = 8;

// The facts that the body of a hook gets besides the arguments of the call.
template <typename Function>
struct Call {
    Function* real;  // never null
    CallSite site;
};

// The entries of one hook. replacement: the functions that are stored into slots. real: the functions behind them,
// filled from the first on, before the first slot leads there.
struct HookEntries {
    void* replacement[kHookEntries];
    void* real[kHookEntries];
};

template <auto Body, typename Numbers = std::make_index_sequence<kHookEntries>>
struct HookOf;

template <typename Result, typename... Arguments, Result (*Body)(const Call<Result(Arguments...)>&, Arguments...),
          std::size_t... Numbers>
struct HookOf<Body, std::index_sequence<Numbers...>> {
    template <std::size_t Number>
    static Result enter(Arguments... arguments) {
        void* const real = __atomic_load_n(&entries.real[Number], __ATOMIC_RELAXED);
        return Body({reinterpret_cast<Result (*)(Arguments...)>(real), MSMEMSCOPE_CALL_SITE()}, arguments...);
    }

    // Filled by the loader: constructors of other libraries may run before ours.
    static inline HookEntries entries = {{reinterpret_cast<void*>(&enter<Numbers>)...}, {}};
};

struct Hook {
    // The library whose calls are redirected, such as "libc10.so". "libmind*" is every library whose name begins like
    // that. Null means every library and the program itself.
    const char* library;
    const char* function;
    HookEntries* entries;
    // The source that this hook belongs to ("torch_cpu"), for the coverage statement. Null: it observes nothing.
    const char* source;
    // Without it the source cannot work; an optional one may be missing.
    bool required;
};

template <auto Body>
constexpr Hook hook(const char* library, const char* function, const char* source, bool required = false) {
    return {library, function, &HookOf<Body>::entries, source, required};
}

// What a program gets that looks a hooked function up by its name (dlsym).
enum class Names : std::uint8_t {
    kPassed,  // the function itself
    kKnown,   // the hook, once the calls of some image lead there
    kAll,     // the hook
};

// The hooks of one source.
struct HookTable {
    const Hook* hooks;
    std::size_t count;
    // Whether an image's calls are redirected, by the last component of its path ("" of the program itself). Null: yes.
    bool (*takes)(const char* image);
    Names names;
};

template <std::size_t Count>
constexpr HookTable table_of(const Hook (&hooks)[Count], bool (*takes)(const char*) = nullptr,
                             Names names = Names::kPassed) {
    static_assert(Count <= 64, "the patcher keeps what came of a table's hooks as bits of one word");
    return {hooks, Count, takes, names};
}

// Every hook of every source. Defined where the sources are listed (sources/sources.cpp).
struct HookTables {
    static constexpr std::size_t kMost = 16;

    const HookTable* const* tables;
    std::size_t count;
};
extern const HookTables kHookTables;

}  // namespace msmemscope
