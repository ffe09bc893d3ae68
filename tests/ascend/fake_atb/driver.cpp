// Executes operators of the stand-in for ATB and reports what came out and what was really called. Built as a library,
// for host.c to open into a scope of its own, as Python does with extensions.
#include <dlfcn.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <stdexcept>
#include <vector>

#include "fake_atb.h"
#include "pools.h"

namespace {

constexpr std::size_t kElements = 6;  // 2 x 3

// A device for the thread, where there is a runtime.
void set_device() {
    void* const runtime = dlopen("libascendcl.so", RTLD_LAZY | RTLD_GLOBAL);
    if (runtime == nullptr) return;
    reinterpret_cast<int (*)(const char*)>(dlsym(runtime, "aclInit"))(nullptr);
    reinterpret_cast<int (*)(int)>(dlsym(runtime, "aclrtSetDevice"))(0);
}

atb::Tensor tensor_of(float* data) {
    atb::Tensor tensor;
    tensor.desc.dtype = 0;
    tensor.desc.format = 2;
    tensor.desc.shape.dims[0] = 2;
    tensor.desc.shape.dims[1] = 3;
    tensor.desc.shape.dimNum = 2;
    tensor.deviceData = data;
    tensor.dataSize = kElements * sizeof(float);
    return tensor;
}

double sum(const std::vector<float>& values) {
    double result = 0;
    for (const float value : values) result += value;
    return result;
}

}  // namespace

extern "C" int run(int inputs, int executions) {
    set_device();
    std::vector<std::vector<float>> data(static_cast<std::size_t>(inputs), std::vector<float>(kElements));
    std::vector<float> output(kElements);
    alignas(512) static std::uint8_t workspace[4096];
    atb::Context context;
    context.stream = &context;

    atb::RunnerVariantPack pack;
    for (std::size_t index = 0; index < data.size(); ++index) {
        for (std::size_t place = 0; place < kElements; ++place) {
            data[index][place] = static_cast<float>(index * 10 + place);
        }
        pack.inTensors.push_back(tensor_of(data[index].data()));
    }
    pack.inTensors.push_back(atb::Tensor{});  // left out, as ATB's operators allow
    pack.outTensors.push_back(tensor_of(output.data()));
    pack.workspaceBuffer = workspace;
    pack.workspaceBufferSize = 1024;
    pack.intermediateBuffer = workspace + 1024;
    pack.intermediateBufferSize = 2048;
    pack.context = &context;

    // Memory of a framework.
    void* const framework = std::getenv("FAKE_ATB_POOLS") == nullptr ? nullptr : fake_atb::create_domain("ptaCaching");
    if (framework != nullptr) {
        fake_atb::register_heap(framework, {0, data[0].data(), 4096});
        // The workspace too: ATB announces its own parts of it.
        fake_atb::register_regions(framework, nullptr, {{0, data[0].data(), 512}, {0, workspace, sizeof(workspace)}});
    }

    atb::AddRunner alone;
    atb::Operation single(alone, "ElewiseOperation", 0);
    atb::AddRunner first;
    atb::FailingRunner failing(false);
    atb::FailingRunner throwing(true);
    atb::GraphRunner graph;
    graph.add(&first);
    first.SetRunnerInfo("NodeOperation", {1, 0});
    // Longer than a record's name may be.
    const std::string long_name(300, 'x');
    atb::Operation in_graph(graph, "GraphOperation", 1);
    atb::Operation with_failure(failing, long_name, 2);
    atb::Operation with_exception(throwing, "ThrowingOperation", 3);

    int status = 0;
    bool errno_kept = true;
    for (int execution = 0; execution < executions; ++execution) {
        for (atb::Operation* operation : {&single, &in_graph}) {
            operation->setup();
            errno = 77;
            status |= operation->execute(pack);
            errno_kept = errno_kept && errno == 77;
        }
    }
    with_failure.setup();
    const int failure = with_failure.execute(pack);
    const char* exception = "none";
    try {
        with_exception.setup();
        with_exception.execute(pack);
    } catch (const std::runtime_error&) {
        exception = "runtime_error";
    }
    const atb::Counts& counts = atb::counts();
    std::printf("sum=%.1f status=%d failure=%d exception=%s errno_kept=%d executed=%d kernels=%d ", sum(output), status,
                failure, exception, errno_kept ? 1 : 0, counts.executed, counts.computed_kernels);
    std::printf("saved_launches=%d saved_packs=%d\n", counts.saved_launches, counts.saved_packs);
    std::printf("input=%p output=%p workspace=%p\n", static_cast<void*>(data[0].data()),
                static_cast<void*>(output.data()), static_cast<void*>(workspace));
    return 0;
}
