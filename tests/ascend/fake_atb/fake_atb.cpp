#include "fake_atb.h"

#include <unistd.h>

#include <cstring>
#include <stdexcept>

#include "pools.h"

namespace Mki {

SVector<Tensor>& LaunchParam::GetInTensors() { return in_; }
SVector<Tensor>& LaunchParam::GetOutTensors() { return out_; }

}  // namespace Mki

namespace atb {
namespace {

constexpr Status kInvalidParameter = 1;
constexpr Status kRuntimeFailed = 4;

bool saves() { return std::getenv("FAKE_ATB_SAVE") != nullptr; }

void* domain() {
    // Older versions do not announce anything.
    const char* const pools = std::getenv("FAKE_ATB_POOLS");
    static void* const created =
        pools == nullptr || std::strcmp(pools, "all") != 0 ? nullptr : fake_atb::create_domain("atb");
    return created;
}

Mki::Tensor launch_tensor(const Tensor& tensor) {
    Mki::Tensor result;
    result.desc.dtype = tensor.desc.dtype;
    result.desc.format = tensor.desc.format;
    for (std::uint64_t index = 0; index < tensor.desc.shape.dimNum; ++index) {
        result.desc.dims.push_back(tensor.desc.shape.dims[index]);
    }
    result.data = tensor.deviceData;
    result.dataSize = tensor.dataSize;
    return result;
}

}  // namespace

Counts& counts() {
    static Counts instance{};
    return instance;
}

bool Probe::IsTensorNeedSave(const std::vector<std::int64_t>&, const std::string&) { return saves(); }
bool Probe::IsSaveTensorDesc() { return saves(); }
bool Probe::IsExecuteCountInRange(const std::uint64_t) { return saves(); }
bool Probe::IsSaveTensorBefore() { return saves(); }
bool Probe::IsSaveTensorAfter() { return saves(); }

void StoreUtil::SaveLaunchParam(void*, const Mki::LaunchParam&, const std::string&) { ++counts().saved_launches; }
void StoreUtil::SaveVariantPack(void*, const RunnerVariantPack&, const std::string&) { ++counts().saved_packs; }

Runner::~Runner() = default;

std::string Runner::GetOperationName() const { return operation_; }
std::string Runner::GetSaveTensorDir() const { return folder_; }
void Runner::SetSaveTensorDir(const std::string& folder) { folder_ = folder; }
void* Runner::GetExecuteStream(Context* context) const { return context->stream; }
bool Runner::IsSaveTensor() const { return Probe::IsExecuteCountInRange(execute_count_) && is_saved_; }

void Runner::SetRunnerInfo(const std::string& operation, const std::vector<std::int64_t>& ids) {
    operation_ = operation;
    ids_ = ids;
    is_saved_ = Probe::IsTensorNeedSave(ids_, operation_);
}

Status Runner::Execute(RunnerVariantPack& pack) {
    if (pack.context == nullptr || GetExecuteStream(pack.context) == nullptr) return kInvalidParameter;
    void* const stream = GetExecuteStream(pack.context);
    ++counts().executed;
    if (IsSaveTensor() && Probe::IsSaveTensorBefore()) StoreUtil::SaveVariantPack(stream, pack, folder_ + "/before");
    const Status status = ExecuteImpl(pack);
    if (IsSaveTensor() && Probe::IsSaveTensorAfter()) StoreUtil::SaveVariantPack(stream, pack, folder_ + "/after");
    ++execute_count_;
    return status;
}

void AddRunner::run_kernel(RunnerVariantPack& pack, std::size_t node, const std::string& name,
                           Mki::LaunchParam& launch) {
    void* const stream = GetExecuteStream(pack.context);
    const bool is_saved = Probe::IsTensorNeedSave(ids_, GetOperationName());
    const std::string folder = GetSaveTensorDir() + "/" + std::to_string(node) + "_" + name;
    std::vector<void*> regions;
    if (domain() != nullptr) {
        regions = fake_atb::register_regions(
            domain(), pack.workspaceBuffer,
            {{0, pack.workspaceBuffer, pack.workspaceBufferSize}, {0, pack.intermediateBuffer, 512}});
    }
    if (is_saved && Probe::IsExecuteCountInRange(execute_count_) && Probe::IsSaveTensorBefore()) {
        StoreUtil::SaveLaunchParam(stream, launch, folder + "/before");
    }
    const Mki::SVector<Mki::Tensor>& inputs = launch.GetInTensors();
    const Mki::Tensor& output = launch.GetOutTensors().storage[0];
    std::vector<float> sums(output.dataSize / sizeof(float));
    for (std::size_t index = 0; index < inputs.count; ++index) {
        const auto* const values = static_cast<const float*>(inputs.storage[index].data);
        for (std::size_t place = 0; values != nullptr && place < sums.size(); ++place) sums[place] += values[place];
    }
    std::memcpy(output.data, sums.data(), output.dataSize);
    ++counts().computed_kernels;
    if (is_saved && Probe::IsExecuteCountInRange(execute_count_) && Probe::IsSaveTensorAfter()) {
        StoreUtil::SaveLaunchParam(stream, launch, folder + "/after");
    }
    if (domain() != nullptr) fake_atb::unregister_regions(domain(), regions);
}

Status AddRunner::ExecuteImpl(RunnerVariantPack& pack) {
    const Mki::Tensor result = launch_tensor(pack.outTensors.at(0));
    Mki::Tensor between = result;
    between.data = pack.intermediateBuffer;
    Mki::LaunchParam add;
    for (std::size_t index = 0; index < pack.inTensors.size() && index < 48; ++index) {
        add.GetInTensors().push_back(launch_tensor(pack.inTensors.at(index)));
    }
    add.GetOutTensors().push_back(between);
    run_kernel(pack, 0, "AddF32Kernel", add);
    Mki::LaunchParam copy;
    copy.GetInTensors().push_back(between);
    copy.GetOutTensors().push_back(result);
    run_kernel(pack, 1, "CopyKernel", copy);
    return 0;
}

Status FailingRunner::ExecuteImpl(RunnerVariantPack&) {
    if (throws_) throw std::runtime_error("the operator cannot be executed");
    return kRuntimeFailed;
}

void GraphRunner::SetSaveTensorDir(const std::string& folder) {
    Runner::SetSaveTensorDir(folder);
    for (std::size_t node = 0; node < nodes_.size(); ++node) {
        nodes_[node]->SetSaveTensorDir(folder + "/" + std::to_string(node) + "_" + nodes_[node]->GetOperationName());
    }
}

Status GraphRunner::ExecuteImpl(RunnerVariantPack& pack) {
    for (Runner* node : nodes_) {
        const Status status = node->Execute(pack);
        if (status != 0) return status;
    }
    return 0;
}

Operation::Operation(Runner& runner, const std::string& name, std::int64_t id) : runner_(runner), name_(name), id_(id) {
    runner_.SetRunnerInfo(name, {id});
}

void Operation::setup() {
    if (Probe::IsSaveTensorDesc()) {
        runner_.SetSaveTensorDir("0_" + std::to_string(getpid()) + "/" + std::to_string(execute_count_) + "/" +
                                 std::to_string(id_) + "_" + name_);
    }
}

Status Operation::execute(RunnerVariantPack& pack) {
    void* const heap =
        domain() == nullptr
            ? nullptr
            : fake_atb::register_heap(
                  domain(), {0, pack.workspaceBuffer, pack.workspaceBufferSize + pack.intermediateBufferSize});
    const Status status = runner_.Execute(pack);
    if (heap != nullptr) fake_atb::unregister_heap(domain(), heap);
    ++execute_count_;
    return status;
}

}  // namespace atb
